"""What decoders of packed weights share: chunks and their threads, compiled steps, tables, groups of columns."""
