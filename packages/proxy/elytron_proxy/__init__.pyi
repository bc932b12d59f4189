from elytron_proxy.app import ProxyApp as ProxyApp
from elytron_proxy.settings import BlockPlacement as BlockPlacement
from elytron_proxy.settings import MemoryUse as MemoryUse
from elytron_proxy.settings import ModelUpstream as ModelUpstream
from elytron_proxy.settings import ProxySettings as ProxySettings
from elytron_proxy.settings import upstreams_of as upstreams_of
