"""Constraints of answers, as masks over tokens: grammars of llguidance, and where the answer begins."""
