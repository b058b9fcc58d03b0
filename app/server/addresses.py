"""Under which address others find this computer."""

import ipaddress
from urllib.parse import urlsplit, urlunsplit

_OF_CONTAINERS = ("docker", "br-", "veth", "virbr", "vmnet", "vboxnet")


def own_addresses() -> tuple[str, ...]:
    """The IPv4 addresses of this computer in its networks, those of containers and virtual machines last."""
    from PySide6.QtNetwork import QAbstractSocket, QNetworkInterface  # noqa: PLC0415  # needed for this alone

    found: list[tuple[bool, str]] = []
    for interface in QNetworkInterface.allInterfaces():
        flags = interface.flags()
        if not flags & QNetworkInterface.InterfaceFlag.IsRunning or flags & QNetworkInterface.InterfaceFlag.IsLoopBack:
            continue
        for entry in interface.addressEntries():
            is_fourth = entry.ip().protocol() == QAbstractSocket.NetworkLayerProtocol.IPv4Protocol
            if is_fourth and not entry.ip().isLinkLocal():
                found.append((interface.name().startswith(_OF_CONTAINERS), entry.ip().toString()))
    return tuple(address for _, address in sorted(found, key=lambda each: each[0]))


def reachable(address: str, own: tuple[str, ...]) -> str:
    """The server's URL as a client needs it: where it listens everywhere, with an address of this computer's own."""
    parts = urlsplit(address)
    try:
        is_everywhere = ipaddress.ip_address(parts.hostname or "").is_unspecified
    except ValueError:
        is_everywhere = False
    if not is_everywhere:
        return address
    host = own[0] if own else "127.0.0.1"
    return urlunsplit(parts._replace(netloc=f"{host}:{parts.port}"))
