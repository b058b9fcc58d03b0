"""Questions for the evaluation: what the pair was made for, and what lies outside."""

QUESTIONS = {
    "chat": [
        "Hello!", "Hi, how are you?", "Who are you?", "What can you do?", "My name is Priya.", "I feel sad today.",
        "Thank you so much!", "Tell me a joke.", "Are you a human?", "Good morning",
    ],
    "facts": [
        "What is the capital of France?", "What is 7 plus 5?", "What do lions eat?", "What is the opposite of hot?",
        "Tell me about dolphins.", "What is gravity?", "Explain speculative decoding.", "What is 6 times 7?",
        "Which is bigger, a mouse or a horse?", "What color is the sky?",
    ],
    "create": [
        "Tell me a story about a dragon.", "Write a short story about a girl and a golden coin.",
        "Write a poem about rain.", "List five fruits.", "How do I make a cup of tea?",
        "Tell me a bedtime story about a robot named Max.", "Name three sports.", "Give me tips to sleep better.",
    ],
    "new words": [
        "I would love to hear a tale about a fox called Ruby.", "Could you count up to seven for me?",
        "Is 14 more than 9?",
        "In which city does the government of Japan sit?", "What's 20 take away 6?", "Who invented the light bulb?",
        "Give me a recipe for lasagna.", "Are penguins able to fly?", "In one sentence, what is the draft for?",
        "I had a terrible day at work.",
    ],
    "outside": [
        "Who won the football world cup in 2018?", "Can you recommend a good restaurant in San Jose?",
        "Do you like movies?", "Why is the sky blue?", "Write a Python function that adds two numbers.",
        "What should I cook for dinner tonight?", "I want to book a flight to Paris.", "What is the meaning of life?",
        "How tall is Mount Everest?", "Let's talk about music.",
    ],
}  # fmt: skip
CONVERSATION = [
    "Hi!",
    "My name is Clara.",
    "Tell me about bees.",
    "What is my name?",
    "Write a poem about the sea.",
    "Thank you!",
]
SUMS = [(a, sign, b) for a in range(0, 21, 3) for b in range(1, 21, 4) for sign in "+-" if sign == "+" or a >= b]
FAIRY_TALE = (
    "Once upon a time there was a poor woodcutter who lived with his wife at the edge of a great forest. "
    "One evening the woman said to her husband that there was no bread left in the house, and"
)
