<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en" sourcelanguage="en">
    <context>
        <name>Coppice</name>
        <message numerus="yes">
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>%n tools</source>
            <translation>
                <numerusform>%n tool</numerusform>
                <numerusform>%n tools</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>and %n more</source>
            <translation>
                <numerusform>and %n more</numerusform>
                <numerusform>and %n more</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>%n chats could not be read ({reason}): {titles}</source>
            <translation>
                <numerusform>%n chat could not be read ({reason}): {titles}</numerusform>
                <numerusform>%n chats could not be read ({reason}): {titles}</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>%n chats were exported to {path}.</source>
            <translation>
                <numerusform>%n chat was exported to {path}.</numerusform>
                <numerusform>%n chats were exported to {path}.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>%n chats were left out, as they are there already.</source>
            <translation>
                <numerusform>%n chat was left out, as it is there already.</numerusform>
                <numerusform>%n chats were left out, as they are there already.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>%n empty chats were left out.</source>
            <translation>
                <numerusform>%n empty chat was left out.</numerusform>
                <numerusform>%n empty chats were left out.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>In %n more files something could not be read.</source>
            <translation>
                <numerusform>In %n more file something could not be read.</numerusform>
                <numerusform>In %n more files something could not be read.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/generation/context_use.py" />
            <source>%n oldest turns will be left out</source>
            <translation>
                <numerusform>%n oldest turn will be left out</numerusform>
                <numerusform>%n oldest turns will be left out</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/generation/context_use.py" />
            <source>%n oldest turns will be summarised</source>
            <translation>
                <numerusform>%n oldest turn will be summarised</numerusform>
                <numerusform>%n oldest turns will be summarised</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/generation/context_use.py" />
            <source>%n pictures above are not read</source>
            <translation>
                <numerusform>%n picture above is not read</numerusform>
                <numerusform>%n pictures above are not read</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/history/answering.py" />
            <source>Waiting: %n requests before this one</source>
            <translation>
                <numerusform>Waiting: %n request before this one</numerusform>
                <numerusform>Waiting: %n requests before this one</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/panel.py" />
            <source>%n more files were not attached.</source>
            <translation>
                <numerusform>%n more file was not attached.</numerusform>
                <numerusform>%n more files were not attached.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Delete %n chats for good?</source>
            <translation>
                <numerusform>Delete %n chat for good?</numerusform>
                <numerusform>Delete %n chats for good?</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>%n passes</source>
            <translation>
                <numerusform>%n pass</numerusform>
                <numerusform>%n passes</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>%n tokens</source>
            <translation>
                <numerusform>%n token</numerusform>
                <numerusform>%n tokens</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Cut off at %n tokens</source>
            <translation>
                <numerusform>Cut off at %n token</numerusform>
                <numerusform>Cut off at %n tokens</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Speculation: {method}, %n nodes a pass</source>
            <translation>
                <numerusform>Speculation: {method}, %n node a pass</numerusform>
                <numerusform>Speculation: {method}, %n nodes a pass</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/column.py" />
            <source>%n tokens so far</source>
            <translation>
                <numerusform>%n token so far</numerusform>
                <numerusform>%n tokens so far</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/column.py" />
            <source>It gets %n tokens, as many as the answer has.</source>
            <translation>
                <numerusform>It gets %n token, as many as the answer has.</numerusform>
                <numerusform>It gets %n tokens, as many as the answer has.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n characters; then {first} in A, {second} in B.</source>
            <translation>
                <numerusform>The same for %n character; then {first} in A, {second} in B.</numerusform>
                <numerusform>The same for %n characters; then {first} in A, {second} in B.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n characters; there A ends.</source>
            <translation>
                <numerusform>The same for %n character; there A ends.</numerusform>
                <numerusform>The same for %n characters; there A ends.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n characters; there B ends.</source>
            <translation>
                <numerusform>The same for %n character; there B ends.</numerusform>
                <numerusform>The same for %n characters; there B ends.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n tokens; then {first} in A, {second} in B.</source>
            <translation>
                <numerusform>The same for %n token; then {first} in A, {second} in B.</numerusform>
                <numerusform>The same for %n tokens; then {first} in A, {second} in B.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n tokens; there A ends.</source>
            <translation>
                <numerusform>The same for %n token; there A ends.</numerusform>
                <numerusform>The same for %n tokens; there A ends.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n tokens; there B ends.</source>
            <translation>
                <numerusform>The same for %n token; there B ends.</numerusform>
                <numerusform>The same for %n tokens; there B ends.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>{method}, %n nodes</source>
            <translation>
                <numerusform>{method}, %n node</numerusform>
                <numerusform>{method}, %n nodes</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/i18n/number_text.py" />
            <source>%n bytes</source>
            <translation>
                <numerusform>%n byte</numerusform>
                <numerusform>%n bytes</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/library/picker/details.py" />
            <source>%n layers</source>
            <translation>
                <numerusform>%n layer</numerusform>
                <numerusform>%n layers</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/library/picker/variant_list.py" />
            <source>In %n files</source>
            <translation>
                <numerusform>In %n file</numerusform>
                <numerusform>In %n files</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/library/picker/ways_box.py" />
            <source>%n nodes</source>
            <translation>
                <numerusform>%n node</numerusform>
                <numerusform>%n nodes</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>%n more tools are not offered: they are too large, or too many.</source>
            <translation>
                <numerusform>%n more tool is not offered: it is too large, or there are too many.</numerusform>
                <numerusform>%n more tools are not offered: they are too large, or too many.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/preferences/tools/words.py" />
            <source>Ready, %n tools</source>
            <translation>
                <numerusform>Ready, %n tool</numerusform>
                <numerusform>Ready, %n tools</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/server/words.py" />
            <source>, %n waiting</source>
            <translation>
                <numerusform>, %n waiting</numerusform>
                <numerusform>, %n waiting</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/server/words.py" />
            <source>Server: %n clients</source>
            <translation>
                <numerusform>Server: %n client</numerusform>
                <numerusform>Server: %n clients</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/server/words.py" />
            <source>Waiting, %n before it</source>
            <translation>
                <numerusform>Waiting, %n before it</numerusform>
                <numerusform>Waiting, %n before it</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>The draft, a small model, guessed a tree of %n tokens.</source>
            <translation>
                <numerusform>The draft, a small model, guessed a tree of %n token.</numerusform>
                <numerusform>The draft, a small model, guessed a tree of %n tokens.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>The target checked all of them in one pass and accepted %n (green): there it ended.</source>
            <translation>
                <numerusform>The target checked all of them in one pass and accepted %n (green): there it ended.</numerusform>
                <numerusform>The target checked all of them in one pass and accepted %n (green): there it ended.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>The target checked all of them in one pass, accepted %n (green), and added one.</source>
            <translation>
                <numerusform>The target checked all of them in one pass, accepted %n (green), and added one.</numerusform>
                <numerusform>The target checked all of them in one pass, accepted %n (green), and added one.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>Token by token, that would have been %n passes.</source>
            <translation>
                <numerusform>Token by token, that would have been %n pass.</numerusform>
                <numerusform>Token by token, that would have been %n passes.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>{tokens} tokens in %n passes of the target: {rate:.1f} tokens per pass. Without guesses every token takes a pass of its own. Point here to see where the time went; Ctrl+Alt+T shows in the text which tokens were guessed.</source>
            <translation>
                <numerusform>{tokens} tokens in %n pass of the target: {rate:.1f} tokens per pass. Without guesses every token takes a pass of its own. Point here to see where the time went; Ctrl+Alt+T shows in the text which tokens were guessed.</numerusform>
                <numerusform>{tokens} tokens in %n passes of the target: {rate:.1f} tokens per pass. Without guesses every token takes a pass of its own. Point here to see where the time went; Ctrl+Alt+T shows in the text which tokens were guessed.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/unsaved.py" />
            <source>%n chats are not saved.</source>
            <translation>
                <numerusform>%n chat is not saved.</numerusform>
                <numerusform>%n chats are not saved.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/unsaved.py" />
            <source>%n files were written to {folder}.</source>
            <translation>
                <numerusform>%n file was written to {folder}.</numerusform>
                <numerusform>%n files were written to {folder}.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/telemetry/panel.py" />
            <source>Round {number} of {count}, {clock} into answering: %n new tokens</source>
            <translation>
                <numerusform>Round {number} of {count}, {clock} into answering: %n new token</numerusform>
                <numerusform>Round {number} of {count}, {clock} into answering: %n new tokens</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/telemetry/panel.py" />
            <source>Round {number}, the newest, {clock} into answering: %n new tokens</source>
            <translation>
                <numerusform>Round {number}, the newest, {clock} into answering: %n new token</numerusform>
                <numerusform>Round {number}, the newest, {clock} into answering: %n new tokens</numerusform>
            </translation>
        </message>
    </context>
</TS>
