"""Where every layer is kept, and how long a pass will take. Pure arithmetic, and what the machine offers."""
