"""Parts with images, audio, video and files, in any provider's form."""

import re
from collections.abc import Mapping
from typing import Any, Final

from tracereel.content.model import Part, PartType
from tracereel.content.reading import base64_size, data_uri, first, mapping, plain, text, word

_KINDS: Final[dict[str, PartType]] = {"image": "image", "audio": "audio", "video": "video"}
_FORMATS: Final = {"mp3": "audio/mpeg", "wav": "audio/wav", "pcm16": "audio/pcm"}
_STANDARD: Final = str.maketrans("-_", "+/")
"""Google's clients send base64 for URLs; browsers read the standard one."""
_TYPED: Final = ("mime_type", "media_type", "mimeType", "mediaType")
_LANGFUSE: Final = re.compile(r"@@@langfuseMedia:type=([\w.+/-]{1,100})\|")
"""Langfuse uploads files and sends a reference in their place."""
MEDIA: Final = frozenset(
    {
        *("image", "image_url", "input_image", "image-url", "image_file", "computer_screenshot"),
        *("audio", "input_audio", "output_audio", "audio-url", "video", "video_url", "video-url"),
        *("file", "input_file", "document", "document-url", "blob", "uri", "media", "binary"),
        *("container_upload", "search_result", "text-plain", "reasoning-file"),
    }
)
"""Types of blocks that hold a file or its address."""


def media_part(kind: str, block: Mapping[str, Any]) -> Part | None:
    """Return the part for a block of type `kind`; None if it holds no file."""
    inner = _inner(kind, block)
    places = [inner, block] if inner is not block else [block]
    media_type = next(filter(None, (_media_type(each) for each in places)), None)
    name = next(filter(None, (_name(each) for each in places)), None)
    said = next(filter(None, (_said(each) for each in places)), None)
    address = data = None
    for each in places:
        address, data = address or _address(each), data or _data(each)
    if isinstance(inner, str):
        address = inner
    if address is not None and (inline := data_uri(address)) is not None:
        address, data = None, inline[1]
        media_type = media_type or inline[0]
    reference = _LANGFUSE.match(address or data or "")
    if reference is not None:
        address, data, media_type = address or data, None, reference[1]
    elif data is not None and (inline := data_uri(data)) is not None:
        media_type, data = media_type or inline[0], inline[1]
    elif data is not None and data.startswith(("https://", "http://")):
        address, data = data, None
    if data is not None and ("-" in data or "_" in data):
        data = data.translate(_STANDARD)
    if address is None and data is None and said is None and name is None:
        return None
    return Part(
        type=_type(kind, block, media_type),
        text=said,
        name=name,
        media_type=media_type,
        data=data,
        uri=None if address is None else address[:4000],
        size=None if data is None else base64_size(data),
    )


def google_media(part: Mapping[str, Any]) -> Part | None:
    """Return the part for Google's `inlineData` or `fileData`."""
    inline = mapping(first(part, "inlineData", "inline_data"))
    if inline:
        return media_part("blob", inline)
    linked = mapping(first(part, "fileData", "file_data"))
    return media_part("uri", linked) if linked else None


def citation(block: Any) -> Part:
    """Return the part for a citation, an annotation or a source."""
    fields = mapping(block)
    for wrapped in ("url_citation", "file_citation"):
        fields = mapping(fields.get(wrapped)) or fields
    quoted = first(fields, "cited_text", "quote", "snippet")
    title = first(fields, "document_title", "title", "filename", "source_title")
    source = first(fields, "url", "uri", "source", "file_id", "sourceId")
    return Part(
        type="citation",
        text=text(quoted) if isinstance(quoted, str) else None,
        name=word(title),
        uri=word(source),
        value=None if quoted or title or source else plain(block),
    )


def _inner(kind: str, block: Mapping[str, Any]) -> Any:
    """Return the object of a block that has the file, the block itself, or an address."""
    names = ("source", "image_url", kind, "input_audio", "image", "audio", "file", "video_url")
    for name in names:
        found = block.get(name)
        if isinstance(found, dict):
            deeper = found.get(name)  # OpenInference: image.image.url
            return deeper if isinstance(deeper, dict) else found
        if isinstance(found, str) and found and name in ("image_url", "video_url", "image"):
            return found if _is_address(found) else {"data": found}
    return block


def _is_address(value: str) -> bool:
    return value.startswith("@@@") or value[:5].lower() == "data:" or "://" in value[:32]


def _data(fields: Any) -> str | None:
    if mapping(fields).get("type") == "text":  # a document as text, not as base64
        return None
    found = first(
        mapping(fields),
        *("data", "base64", "file_data", "fileData", "base64_data"),
        *(("content",) if not mapping(fields).keys().isdisjoint(_TYPED) else ()),
    )
    return text(found) if isinstance(found, str) and found else None


def _address(fields: Any) -> str | None:
    found = first(
        mapping(fields),
        *("url", "uri", "image_url", "file_uri", "fileUri", "file_url", "file_id", "fileId"),
        *("source_url", "source"),
    )
    return text(found) if isinstance(found, str) and found else None


def _media_type(fields: Any) -> str | None:
    found = mapping(fields)
    kind = word(first(found, *_TYPED, "mimetype"))
    if kind is None and (form := word(found.get("format"))) is not None and len(form) < 10:
        kind = _FORMATS.get(form, form if "/" in form else f"audio/{form}")
    return kind[:200] if kind else None


def _name(fields: Any) -> str | None:
    return word(first(mapping(fields), "filename", "title", "displayName", "display_name", "name"))


def _said(fields: Any) -> str | None:
    """Return the text that came with a file: transcript, context or plain text of a document."""
    found = mapping(fields)
    said = first(found, "transcript", "context", "text")
    if said is None and found.get("type") == "text":
        said = found.get("data")
    if said is None and isinstance(blocks := found.get("content"), list):
        texts = [mapping(each).get("text") for each in blocks[:1000]]
        said = "\n".join(each for each in texts if isinstance(each, str)) or None
    return text(said) if isinstance(said, str) and said else None


def _type(kind: str, block: Mapping[str, Any], media_type: str | None) -> PartType:
    modality = word(block.get("modality"))
    if modality in _KINDS:
        return _KINDS[modality]
    for name, part_type in _KINDS.items():
        if (media_type or "").startswith(f"{name}/") or name in kind:
            return part_type
    return "image" if kind == "computer_screenshot" else "file"
