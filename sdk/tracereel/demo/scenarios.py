"""Requests for the demo booking assistant and their expected interpretation."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

TUESDAY: Final = 1
FRIDAY: Final = 4


@dataclass(frozen=True, slots=True)
class Scenario:
    """One request and the data for the scripted model."""

    prompt: str
    user_id: str
    timezone: str
    contact: str
    date_phrase: str
    days_ahead: int
    time: str
    place_phrase: str | None
    place: str
    clarity: float
    """Base of the model's confidence; higher for clearer requests."""
    rival_readings: tuple[str, ...]
    """Alternative meanings of the date phrase."""
    weekday: int | None = None
    """Weekday of the phrase (Monday is 0): the first one from `days_ahead` on."""

    def day(self, today: date) -> date:
        """Return the date of the phrase, relative to `today`."""
        first = today + timedelta(days=self.days_ahead)
        if self.weekday is None:
            return first
        return first + timedelta(days=(self.weekday - first.weekday()) % 7)


SCENARIOS: Final = (
    Scenario(
        prompt="cita mañana 10am con Dr. Pérez",
        user_id="user_12345",
        timezone="America/Mexico_City",
        contact="Dr. Pérez",
        date_phrase="mañana",
        days_ahead=1,
        time="10:00",
        place_phrase=None,
        place="Consultorio Roma Norte",
        clarity=0.92,
        rival_readings=("esta mañana",),
    ),
    Scenario(
        prompt="book me a dentist appointment next Tuesday at 4pm, somewhere downtown",
        user_id="user_20417",
        timezone="America/New_York",
        contact="Dr. Okafor, dentist",
        date_phrase="next Tuesday",
        days_ahead=1,
        time="16:00",
        place_phrase="downtown",
        place="Main Street Dental, 2nd floor",
        clarity=0.81,
        rival_readings=("Tuesday week",),
        weekday=TUESDAY,
    ),
    Scenario(
        prompt="agenda una revisión con la Dra. Gómez el viernes a las 9:30 en Polanco",
        user_id="user_30551",
        timezone="America/Mexico_City",
        contact="Dra. Gómez",
        date_phrase="el viernes",
        days_ahead=1,
        time="09:30",
        place_phrase="Polanco",
        place="Clínica Polanco, consultorio 4",
        clarity=0.95,
        rival_readings=("el viernes de la próxima semana",),
        weekday=FRIDAY,
    ),
    Scenario(
        prompt="necesito ver al cardiólogo lo antes posible, de preferencia por la tarde",
        user_id="user_12345",
        timezone="America/Bogota",
        contact="Dr. Salas, cardiólogo",
        date_phrase="lo antes posible",
        days_ahead=2,
        time="15:00",
        place_phrase=None,
        place="Hospital San Ignacio, torre B",
        clarity=0.64,
        rival_readings=("hoy por la tarde", "mañana por la tarde"),
    ),
    Scenario(
        prompt="eye exam in ten days at noon with Dr. Lee on Oak Street",
        user_id="user_44810",
        timezone="Europe/London",
        contact="Dr. Lee",
        date_phrase="in ten days",
        days_ahead=10,
        time="12:00",
        place_phrase="Oak Street",
        place="14 Oak Street",
        clarity=0.97,
        rival_readings=(),
    ),
    Scenario(
        prompt="cita con el pediatra hoy a las 8 de la noche",
        user_id="user_51022",
        timezone="Europe/Madrid",
        contact="Dra. Ruiz, pediatra",
        date_phrase="hoy",
        days_ahead=0,
        time="20:00",
        place_phrase=None,
        place="Centro de Salud Norte",
        clarity=0.9,
        rival_readings=(),
    ),
    Scenario(
        prompt="blood test tomorrow at 8 with 李医生, before breakfast please",
        user_id="user_60733",
        timezone="Asia/Singapore",
        contact="李医生",
        date_phrase="tomorrow",
        days_ahead=1,
        time="08:00",
        place_phrase=None,
        place="Orchard Road Lab",
        clarity=0.86,
        rival_readings=(),
    ),
)
