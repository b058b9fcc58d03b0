"""The names of stored tensors where the members of a stack are stored one by one, as experts are."""

MEMBER = "@"  # no name of a network's has it


def member_name(name: str, member: int) -> str:
    """What a tensor of one member of a stack is called, where members are stored one by one."""
    return f"{name}{MEMBER}{member}"


def split_name(name: str) -> tuple[str, int | None]:
    """The name that is common to all members, and the member's number; None for a tensor of all of them, or of none."""
    stem, mark, member = name.partition(MEMBER)
    return stem, int(member) if mark else None
