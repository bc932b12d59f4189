from elytron_models.dialects.chat import CHAT as CHAT
from elytron_models.dialects.messages import MESSAGES as MESSAGES
from elytron_models.dialects.ollama import OLLAMA as OLLAMA
from elytron_models.dialects.responses import RESPONSES as RESPONSES
