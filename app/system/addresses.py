"""Passwords within web addresses, such as that of a proxy: taken out, and put in again."""

from urllib.parse import urlsplit, urlunsplit


def split_password(address: str) -> tuple[str, str]:
    """The address without the password in it, and the password as it stood there; empty where there is none."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return address, ""
    person, at, host = parts.netloc.rpartition("@")
    name, _, password = person.partition(":")
    if not password:
        return address, ""
    return urlunsplit(parts._replace(netloc=f"{name}{at}{host}")), password


def names_person(address: str) -> bool:
    """Whether the address says who asks, so that there may be a password for it."""
    try:
        return "@" in urlsplit(address).netloc
    except ValueError:
        return False


def join_password(address: str, password: str) -> str:
    """The address with the password, as a client needs it."""
    if not password or not names_person(address):
        return address
    parts = urlsplit(address)
    name, _, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{name}:{password}@{host}"))
