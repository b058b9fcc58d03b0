"""What an answer must look like, as masks over tokens: grammars of llguidance, and where the answer begins."""
