"""The text of messages: Markdown as Qt documents, of which only those near the reader exist, however long a text is.

An endless answer may not make the window slow: a word that arrives, a turn of the wheel and another width of the window
must cost the same in a text of ten lines as in one of a million. So a text is cut, and only what is near is laid out.

Text -> blocks -> sections -> documents:

- A **block** (`blocks.Block`) is one block of Markdown: a paragraph, a list, a table, a code block. `BlockStream` takes
  text as it comes and gives back each block once, when nothing that follows can change it. What is not closed yet is
  the **open end** (the stream's `tail`); it alone is parsed again with every word. `json_document` finds JSON that
  begins a text, which becomes code.
- A **piece** is a part of a block that has grown long: forty lines of code, a few rows of a table. It is a `Block`,
  too; `continues` says that it goes on where the block before it was cut, and `joint` what stands between the two where
  they are copied. `typesetting.layout_cost` estimates when a block is too much work.
- A **section** (`manuscript.Section`) is a run of blocks that are shown together, some ten thousand letters.
- The **manuscript** (`manuscript.Manuscript`) is a whole text: it keeps the text, cuts it when there is time, and knows
  where every section and block begins. It knows nothing of Qt.
- A **document** (`document.MarkdownDocument`) shows one section in a `QTextDocument`: a frame for each block. Closed
  blocks are written once, the open end again and again. `rendering` makes the HTML of a block, `document_style` the
  style, `typesetting.code_places` and `formula_places` put in colours and pictures when they have come.
- The **view** (`markdown_view.MarkdownView`) is a widget as tall as the whole text. It estimates the height of sections
  that do not exist, makes a `MessageText` (a text browser that never scrolls) with its document for each one that comes
  near the visible part, and drops those far away. `plain_text_view.PlainTextView` does the same for a long question,
  with another stream (no Markdown) and another document (character for character).

Who calls whom, when text arrives:

    AnswerView._flush (at most once a frame)
        MarkdownView.show_text             adds to the manuscript what is new
        MarkdownView.work(seconds)         within a time budget, again in the next frame while `is_behind`
            Manuscript.cut                 BlockStream.feed -> closed blocks -> sections
            MarkdownDocument.write         BlockRenderer.render -> HTML -> frame; then colours and formulas
            MarkdownView._place            heights as they are now; sections move down
    ConversationView (scrolled)
        MarkdownView.show_part             which pixels can be seen: sections are made and dropped

A place counts characters of the Markdown, from 0; a position is Qt's, in one document. `MarkdownDocument` writes the
place where each block begins into its frame (`place_of`), so that origins, tints and marks find the text that they
belong to. `selection` copies what is selected, also where sections between do not exist; `links` decides what may be
opened.
"""
