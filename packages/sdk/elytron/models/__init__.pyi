from elytron.models.scripted import ModelCassette as ModelCassette
from elytron.models.scripted import RecordedModel as RecordedModel
from elytron.models.scripted import RecordingModel as RecordingModel
from elytron.models.scripted import ScriptedModel as ScriptedModel
from elytron.models.scripted import call_key as call_key
