"""The system's keyring: single secrets by their names. Every function may block, on a locked keyring say."""

import logging

_log = logging.getLogger(__name__)

_SERVICE = "coppice"


def keep_secret(name: str, secret: str) -> bool:
    """Put a secret into the keyring, under a name; whether a keyring took it."""
    import keyring  # noqa: PLC0415  # it looks for back ends when it is imported
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        keyring.set_password(_SERVICE, name, secret)
    except (KeyringError, RuntimeError, OSError) as error:
        _log.warning("The keyring took no secret: %s", type(error).__name__)
        return False
    return True


def read_secret(name: str) -> str:
    """The secret that the keyring has under a name, empty for none."""
    import keyring  # noqa: PLC0415
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        return keyring.get_password(_SERVICE, name) or ""
    except (KeyringError, RuntimeError, OSError) as error:
        _log.info("The keyring cannot be read: %s", type(error).__name__)
        return ""


def forget_secret(name: str) -> None:
    """Take it out of the keyring."""
    import keyring  # noqa: PLC0415
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        keyring.delete_password(_SERVICE, name)
    except (KeyringError, RuntimeError, OSError) as error:
        _log.info("There was no secret to forget: %s", type(error).__name__)
