from elytron_proxy.app import ProxyApp as ProxyApp
from elytron_proxy.settings import MemoryUse as MemoryUse
from elytron_proxy.settings import Placement as Placement
from elytron_proxy.settings import ProxySettings as ProxySettings
from elytron_proxy.settings import Upstream as Upstream
from elytron_proxy.settings import upstreams_of as upstreams_of
