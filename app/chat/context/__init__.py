"""How full the context is: counted, shown, and made room in."""
