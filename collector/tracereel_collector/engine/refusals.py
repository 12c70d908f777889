"""Names that the guard accepts or refuses."""

from collections.abc import Iterable
from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STATEMENTS = _words("""
    SELECT WITH INSERT CREATE ALTER DROP UNDROP TRUNCATE RENAME EXCHANGE REPLACE ATTACH DETACH
    OPTIMIZE SHOW DESCRIBE DESC EXPLAIN EXISTS CHECK DELETE UPDATE SYSTEM KILL BACKUP RESTORE
""")
ROW_STATEMENTS = _words("SELECT WITH SHOW DESCRIBE DESC EXPLAIN EXISTS CHECK")
SESSION_STATEMENTS = _words("SET USE BEGIN COMMIT ROLLBACK")
CREATABLE = _words("TABLE DATABASE VIEW MATERIALIZED INDEX")
SYSTEM_COMMANDS = _words("START STOP FLUSH DROP CLEAR REFRESH WAIT CANCEL SYNC")

# Table functions that stay inside the store; all other table functions are refused.
INNER_FUNCTIONS = _words("""
    sqlstandardvalues dictionary format generaterandom generateseries generate_series merge
    mergetreeanalyzeindexes mergetreeanalyzeindexesuuid mergetreecodecblockcounts mergetreeindex
    mergetreeprojection mergetreetextindex null numbers numbers_mt primes values view viewexplain
    viewifpermitted zeros zeros_mt fuzzjson
""")
# Always refused: known ways out of the store, and `disk` in a table's settings.
OUTER_FUNCTIONS = _words("""
    file url s3 gcs hdfs remote remotesecure cluster clusterallreplicas mysql postgresql sqlite
    mongodb redis jdbc odbc executable python eval loop input disk catboostevaluate airedact
    aisimilarity aifilter aiclassify aiembed aiextract aigenerate aitranslate
""")
INNER_ENGINES = _words("""
    null memory log tinylog stripelog view materializedview join set generaterandom atomic ordinary
""")
# Buffer, Merge and Alias can access any other table, including those of `default`.
OUTER_ENGINES = _words("""
    file url s3 mysql postgresql sqlite executable executablepool kafka distributed buffer merge
    alias dictionary filesystem overlay lazy backup
""")
# Settings that open files or connections, or that change how a statement is parsed.
REFUSED_SETTINGS = _words("""
    format_template_row format_template_resultset format_avro_schema_registry_url
    input_format_record_errors_file_path dialect polyglot_dialect profile
    filesystem_cache_name rename_files_after_processing
""")
# Accepted as request settings under a condition, never inside a statement.
SCHEMA_SETTINGS = _words("format_schema format_schema_source")
FILTER_SETTINGS = _words("additional_result_filter additional_table_filters filter")
# Names that chDB's Python API does not treat as formats.
REFUSED_FORMATS = _words("dataframe datastore arrowtable debug")


@dataclass(frozen=True, slots=True)
class Rules:
    """Refused functions and engines, in lower case."""

    functions: frozenset[str] = OUTER_FUNCTIONS
    engines: frozenset[str] = OUTER_ENGINES

    @classmethod
    def of(cls, *, table_functions: Iterable[str], engines: Iterable[str]) -> "Rules":
        """Build rules that refuse all names of this engine except those known to stay inside."""
        known = {name.lower() for name in table_functions}
        kinds = {name.lower() for name in engines if not name.endswith("MergeTree")}
        return cls(
            functions=OUTER_FUNCTIONS | (known - INNER_FUNCTIONS),
            engines=OUTER_ENGINES | (kinds - INNER_ENGINES),
        )
