"""Files that go into a question: read, shown as chips, written out as text."""
