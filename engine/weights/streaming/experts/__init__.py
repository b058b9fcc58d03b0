"""A mixture's experts: brought whole or one by one, and kept in slots."""
