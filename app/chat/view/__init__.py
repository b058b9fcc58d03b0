"""How messages are shown: the column of questions and answers, selection, and the lines below an answer."""
