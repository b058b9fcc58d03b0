"""What the speculation costs and gives, in figures: charts over time, acceptance, memory, and a measured speed-up."""
