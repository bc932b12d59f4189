from elytron.models.recorded import Cassette as Cassette
from elytron.models.recorded import RecordedModel as RecordedModel
from elytron.models.recorded import RecordingModel as RecordingModel
from elytron.models.recorded import call_key as call_key
from elytron.models.scripted import ScriptedModel as ScriptedModel
