<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de" sourcelanguage="en">
    <context>
        <name>Coppice</name>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>A conversation in it is larger than {size} MB, or consists mostly of brackets.</source>
            <translation>Ein Gespräch darin ist größer als {size} MB oder besteht vor allem aus Klammern.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>It cannot be read: {reason}.</source>
            <translation>Sie kann nicht gelesen werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>It is larger than {size} MB.</source>
            <translation>Sie ist größer als {size} MB.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>It is not UTF-8 text.</source>
            <translation>Sie ist kein Text in UTF-8.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>Its end is missing: get the file again.</source>
            <translation>Das Ende der Datei fehlt: Beschaffen Sie sie noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>JSON with all versions</source>
            <translation>JSON mit allen Versionen</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>Markdown, as shown</source>
            <translation>Markdown, wie angezeigt</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>The file holds a message without a role or without text.</source>
            <translation>Die Datei enthält eine Nachricht ohne Rolle oder ohne Text.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>The file holds no conversation. Export the chats again, and choose that file.</source>
            <translation>Die Datei enthält kein Gespräch. Exportieren Sie die Chats noch einmal, und wählen Sie diese Datei.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>The file holds no messages; expected is {form}.</source>
            <translation>Die Datei enthält keine Nachrichten; erwartet wird {form}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>The file holds no question.</source>
            <translation>Die Datei enthält keine Frage.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>The file holds no turns; expected are headings such as “## You” and “## Answer”.</source>
            <translation>Die Datei enthält kein Gespräch; erwartet werden Überschriften wie „## You“ und „## Answer“.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>The file is not JSON: {error}.</source>
            <translation>Die Datei ist kein JSON: {error}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>Too much in it is no conversation.</source>
            <translation>Zu vieles darin ist kein Gespräch.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/formats.py" />
            <source>Unsent text</source>
            <translation>Nicht gesendeter Text</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/whole_chat.py" />
            <source>A chat in it is larger than {size} MB.</source>
            <translation>Ein Chat darin ist größer als {size} MB.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/whole_chat.py" />
            <source>A newer version of Coppice wrote it. Update Coppice to read it.</source>
            <translation>Eine neuere Fassung von Coppice hat sie geschrieben. Aktualisieren Sie Coppice, um sie zu lesen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/whole_chat.py" />
            <source>The beginning of a chat in it is missing.</source>
            <translation>Der Anfang eines Chats darin fehlt.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/exchange/whole_chat.py" />
            <source>The end of a chat in it is missing.</source>
            <translation>Das Ende eines Chats darin fehlt.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/schema.py" />
            <source>a newer version of Coppice wrote it</source>
            <translation>eine neuere Fassung von Coppice hat sie geschrieben</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/schema.py" />
            <source>it is another program's database</source>
            <translation>sie ist die Datenbank eines anderen Programms</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/schema.py" />
            <source>it is damaged ({detail})</source>
            <translation>sie ist beschädigt ({detail})</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/schema.py" />
            <source>only the log that belongs to it is left</source>
            <translation>nur das zugehörige Protokoll ist noch da</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/store.py" />
            <source>{title} (branch)</source>
            <translation>{title} (Zweig)</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/store.py" />
            <source>{title} (copy)</source>
            <translation>{title} (Kopie)</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>Conversations cannot be read from {file}: {reason}.</source>
            <translation>Chats können nicht aus {file} gelesen werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>Conversations cannot be saved in {file}: {reason}.</source>
            <translation>Chats können nicht in {file} gespeichert werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>Free some space; it is tried again.</source>
            <translation>Schaffen Sie Platz; es wird wieder versucht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>It is tried again with the next change.</source>
            <translation>Mit der nächsten Änderung wird es wieder versucht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>Start Coppice with a folder of a shorter path (--data-dir).</source>
            <translation>Starten Sie Coppice mit einem Ordner, dessen Pfad kürzer ist (--data-dir).</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>Try it again; the log tells more.</source>
            <translation>Versuchen Sie es noch einmal; das Protokoll sagt mehr.</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>the disk is full</source>
            <translation>die Platte ist voll</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>the path of its folder is too long</source>
            <translation>der Pfad ihres Ordners ist zu lang</translation>
        </message>
        <message>
            <location filename="../../app/chat/archive/worker.py" />
            <source>there is not enough memory</source>
            <translation>der Arbeitsspeicher reicht nicht</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_reader.py" />
            <source>It cannot be read because of an error in this program ({error}).</source>
            <translation>Sie kann wegen eines Fehlers in diesem Programm ({error}) nicht gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_reader.py" />
            <source>It is a folder. Attach the files in it.</source>
            <translation>Das ist ein Ordner. Hängen Sie die Dateien darin an.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_reader.py" />
            <source>It is empty.</source>
            <translation>Sie ist leer.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_reader.py" />
            <source>It is not an ordinary file.</source>
            <translation>Das ist keine gewöhnliche Datei.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_reader.py" />
            <source>It is not text.</source>
            <translation>Sie enthält keinen Text.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_reader.py" />
            <source>It is not text. Only texts, code, PDFs and pictures can be attached.</source>
            <translation>Das ist kein Text. Nur Texte, Code, PDFs und Bilder können angehängt werden.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Attached: {name}, {size}</source>
            <translation>Angehängt: {name}, {size}</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Attachments</source>
            <translation>Anhänge</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Choose a model that reads pictures in Models (Ctrl+M), or remove the picture.</source>
            <translation>Wählen Sie unter Modelle (Strg+M) eines, das Bilder liest, oder entfernen Sie das Bild.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Click to see it large.</source>
            <translation>Klicken Sie, um es groß zu sehen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Click to see its text.</source>
            <translation>Klicken Sie, um den Text zu sehen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Do not attach this file</source>
            <translation>Diese Datei nicht anhängen</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Pasted picture {number}</source>
            <translation>Eingefügtes Bild {number}</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Pasted text {number}</source>
            <translation>Eingefügter Text {number}</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>Remove {name}</source>
            <translation>{name} entfernen</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>in part</source>
            <translation>zum Teil</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>reading…</source>
            <translation>wird gelesen …</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>{count:,} characters</source>
            <translation>{count:,} Zeichen</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>{count:,} tokens</source>
            <translation>{count:,} Token</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>{name} was not attached. {reason}</source>
            <translation>{name} wurde nicht angehängt. {reason}</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/attachment_tray.py" />
            <source>{name} was not attached: {count} files are the most for one question.</source>
            <translation>{name} wurde nicht angehängt: Mehr als {count} Dateien kann eine Frage nicht haben.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>A file is still being read</source>
            <translation>Eine Datei wird noch gelesen</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>An answer is under way: wait for its end, or stop it.</source>
            <translation>Es wird gerade geantwortet: Warten Sie das Ende ab, oder halten Sie die Antwort an.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Attach files or pictures</source>
            <translation>Dateien oder Bilder anhängen</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Attach files or pictures (Ctrl+Shift+A)</source>
            <translation>Dateien oder Bilder anhängen (Strg+Umschalt+A)</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Click to change it for this chat (Ctrl+Shift+P).</source>
            <translation>Ein Klick ändert es für diesen Chat (Strg+Umschalt+P).</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Click to see and change it.</source>
            <translation>Klicken Sie, um sie zu sehen und zu ändern.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Context used</source>
            <translation>Belegter Kontext</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Context: {words}</source>
            <translation>Kontext: {words}</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Continue</source>
            <translation>Fortsetzen</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Continue answer</source>
            <translation>Antwort fortsetzen</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Ctrl+Enter</source>
            <translation>Strg+Eingabe</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Enter</source>
            <translation>Eingabe</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Send</source>
            <translation>Senden</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Send ({keys})</source>
            <translation>Senden ({keys})</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Start the answer with… (Ctrl+Shift+B)</source>
            <translation>Antwort beginnen mit… (Strg+Umschalt+B)</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Stop</source>
            <translation>Anhalten</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Stop (Esc)</source>
            <translation>Anhalten (Esc)</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>The answer was cut off: let it go on (Ctrl+J)</source>
            <translation>Die Antwort wurde abgeschnitten: weiterschreiben lassen (Strg+J)</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>There is no model to ask</source>
            <translation>Es ist kein Modell da, das antworten könnte</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/composer.py" />
            <source>Write something first.</source>
            <translation>Schreiben Sie erst etwas.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/fields.py" />
            <source>Ask something</source>
            <translation>Fragen Sie etwas</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/fields.py" />
            <source>Do not start the answer</source>
            <translation>Antwort nicht vorgeben</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/fields.py" />
            <source>Let the answer begin as it likes</source>
            <translation>Die Antwort frei beginnen lassen</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/fields.py" />
            <source>Message</source>
            <translation>Nachricht</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/fields.py" />
            <source>Start the answer with</source>
            <translation>Antwort beginnen mit</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/fields.py" />
            <source>Sure, here is</source>
            <translation>Gern, hier ist</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/fields.py" />
            <source>The model goes on from these words as if they were its own.</source>
            <translation>Das Modell schreibt ab diesen Worten weiter, als wären es seine eigenen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pdf_text.py" />
            <source>It has no text, perhaps because its pages are pictures.</source>
            <translation>Sie hat keinen Text, vielleicht weil ihre Seiten Bilder sind.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pdf_text.py" />
            <source>It is damaged, or not a PDF.</source>
            <translation>Sie ist beschädigt oder kein PDF.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pdf_text.py" />
            <source>It is encrypted. Save a copy without a password, and attach that.</source>
            <translation>Sie ist verschlüsselt. Speichern Sie eine Kopie ohne Passwort, und hängen Sie diese an.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pdf_text.py" />
            <source>No text was found in it: {note}.</source>
            <translation>Es wurde kein Text darin gefunden: {note}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pdf_text.py" />
            <source>Reading it takes too long, or too much memory.</source>
            <translation>Sie zu lesen dauert zu lange oder braucht zu viel Speicher.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pdf_text.py" />
            <source>only the first {number} of {count} pages</source>
            <translation>nur die ersten {number} von {count} Seiten</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pdf_text.py" />
            <source>only the first {number} of {count} pages: the rest is too long</source>
            <translation>nur die ersten {number} von {count} Seiten: der Rest ist zu lang</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pdf_text.py" />
            <source>reading was stopped after {number} of {count} pages: it took too long, or too much memory</source>
            <translation>das Lesen wurde nach {number} von {count} Seiten abgebrochen: es dauerte zu lange oder brauchte zu viel Speicher</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pictures.py" />
            <source>All files</source>
            <translation>Alle Dateien</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pictures.py" />
            <source>It has too many pixels.</source>
            <translation>Es hat zu viele Bildpunkte.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pictures.py" />
            <source>It is damaged, or no picture.</source>
            <translation>Es ist beschädigt oder kein Bild.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pictures.py" />
            <source>Pictures</source>
            <translation>Bilder</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/pictures.py" />
            <source>Pictures of this kind ({kind}) cannot be read. Save it as PNG or JPEG, and attach that.</source>
            <translation>Bilder dieser Art ({kind}) können nicht gelesen werden. Speichern Sie es als PNG oder JPEG, und hängen Sie das an.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>%n tools</source>
            <translation>
                <numerusform>%n Werkzeug</numerusform>
                <numerusform>%n Werkzeuge</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>All off</source>
            <translation>Alle aus</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>All on</source>
            <translation>Alle an</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>Answers of this chat call no tools.</source>
            <translation>Antworten dieses Chats rufen keine Werkzeuge auf.</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>Answers of this chat may call:</source>
            <translation>Antworten dieses Chats können aufrufen:</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>Click to switch tools off and on for this chat (Ctrl+Shift+K).</source>
            <translation>Klicken Sie, um Werkzeuge für diesen Chat aus- und einzuschalten (Strg+Umschalt+K).</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>Tools in Preferences…</source>
            <translation>Werkzeuge in den Einstellungen…</translation>
        </message>
        <message>
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>Tools off</source>
            <translation>Werkzeuge aus</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/composer/tools_button.py" />
            <source>and %n more</source>
            <translation>
                <numerusform>und %n weiterer</numerusform>
                <numerusform>und %n weitere</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>%n chats could not be read ({reason}): {titles}</source>
            <translation>
                <numerusform>%n Chat konnte nicht gelesen werden ({reason}): {titles}</numerusform>
                <numerusform>%n Chats konnten nicht gelesen werden ({reason}): {titles}</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>%n chats were exported to {path}.</source>
            <translation>
                <numerusform>%n Chat wurde nach {path} exportiert.</numerusform>
                <numerusform>%n Chats wurden nach {path} exportiert.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>%n chats were left out, as they are there already.</source>
            <translation>
                <numerusform>%n Chat wurde ausgelassen, weil er schon da ist.</numerusform>
                <numerusform>%n Chats wurden ausgelassen, weil sie schon da sind.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>%n empty chats were left out.</source>
            <translation>
                <numerusform>%n leerer Chat wurde ausgelassen.</numerusform>
                <numerusform>%n leere Chats wurden ausgelassen.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Choose another place, or make room there.</source>
            <translation>Wählen Sie einen anderen Ort, oder schaffen Sie dort Platz.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Conversations ({patterns})</source>
            <translation>Chats ({patterns})</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Conversations imported: {count}.</source>
            <translation>Importierte Gespräche: {count}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Deleted “{title}”.</source>
            <translation>„{title}“ wurde gelöscht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Entries that are no conversations: {count}.</source>
            <translation>Einträge, die keine Gespräche sind: {count}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Export all chats</source>
            <translation>Alle Chats exportieren</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Export chat</source>
            <translation>Chat exportieren</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Exported to {path}.</source>
            <translation>Nach {path} exportiert.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Exporting chats: {count} of {total}.</source>
            <translation>Chats werden exportiert: {count} von {total}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Import chats</source>
            <translation>Chats importieren</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Import folder of chats</source>
            <translation>Ordner mit Chats importieren</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Importing {name}: {share} read, conversations so far: {count}.</source>
            <translation>{name} wird importiert: {share} gelesen, Gespräche bisher: {count}.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/conversations.py" />
            <source>In %n more files something could not be read.</source>
            <translation>
                <numerusform>In %n weiteren Datei konnte etwas nicht gelesen werden.</numerusform>
                <numerusform>In %n weiteren Dateien konnte etwas nicht gelesen werden.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>It is removed after {day}; copy it elsewhere to keep it.</source>
            <translation>Sie wird nach dem {day} gelöscht; wer sie behalten will, kopiert sie an einen anderen Ort.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Opening “{title}”…</source>
            <translation>„{title}“ wird geöffnet …</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Question and answer were deleted.</source>
            <translation>Frage und Antwort wurden gelöscht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Save elsewhere…</source>
            <translation>Anderswo speichern…</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>The chats of “{folder}” are in “{other}” now.</source>
            <translation>Die Chats von „{folder}“ sind jetzt in „{other}“.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>The export was stopped; no file was written.</source>
            <translation>Der Export wurde angehalten; es wurde keine Datei geschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>The file of your conversations could not be used: {reason}. A new one was begun.</source>
            <translation>Die Datei Ihrer Gespräche ließ sich nicht verwenden: {reason}. Eine neue wurde angelegt.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>The folder “{folder}” is gone, its chats are still there.</source>
            <translation>Der Ordner „{folder}“ ist weg, seine Chats sind noch da.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>The import was stopped.</source>
            <translation>Der Import wurde angehalten.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>The message was deleted.</source>
            <translation>Die Nachricht wurde gelöscht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>The old file is kept as {place}.</source>
            <translation>Die alte Datei liegt unter {place}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>There is no chat yet.</source>
            <translation>Es gibt noch keinen Chat.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>This chat is shown in this window.</source>
            <translation>Dieses Fenster zeigt diesen Chat bereits.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>Undo</source>
            <translation>Rückgängig</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>{name} could not be imported.</source>
            <translation>{name} ließ sich nicht importieren.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>{path} could not be written: {reason}.</source>
            <translation>{path} ließ sich nicht schreiben: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>“Import chats” brings it back.</source>
            <translation>„Chats importieren“ bringt ihn zurück.</translation>
        </message>
        <message>
            <location filename="../../app/chat/conversations.py" />
            <source>“Import chats” brings them back.</source>
            <translation>„Chats importieren“ bringt sie zurück.</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Capital and small letters, and accents, are told apart.</source>
            <translation>Groß- und Kleinbuchstaben und Akzente werden unterschieden.</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Close (Esc)</source>
            <translation>Schließen (Esc)</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Find in this chat</source>
            <translation>In diesem Chat suchen</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Match case</source>
            <translation>Groß- und Kleinschreibung</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Next hit (F3)</source>
            <translation>Nächster Treffer (F3)</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Nothing found</source>
            <translation>Nichts gefunden</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Nothing is looked for.</source>
            <translation>Es wird nichts gesucht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Only in other versions</source>
            <translation>Nur in anderen Fassungen</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Only words that are exactly this are found.</source>
            <translation>Nur Wörter, die genau so lauten, werden gefunden.</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Previous hit (Shift+F3)</source>
            <translation>Voriger Treffer (Umschalt+F3)</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>Whole words</source>
            <translation>Ganze Wörter</translation>
        </message>
        <message>
            <location filename="../../app/chat/finding/bar.py" />
            <source>{number} of {count}</source>
            <translation>{number} von {count}</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/constraint_state.py" />
            <source>Constraint is wrong</source>
            <translation>Vorgabe fehlerhaft</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/constraint_state.py" />
            <source>Constraint not sent</source>
            <translation>Vorgabe nicht gesendet</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/constraint_state.py" />
            <source>Grammar</source>
            <translation>Grammatik</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/constraint_state.py" />
            <source>JSON</source>
            <translation>JSON</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/constraint_state.py" />
            <source>JSON schema</source>
            <translation>JSON-Schema</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/constraint_state.py" />
            <source>Pattern</source>
            <translation>Muster</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/constraint_state.py" />
            <source>Structured output: every answer of this chat is held to its form.</source>
            <translation>Strukturierte Ausgabe: Jede Antwort dieses Chats hält die Vorgabe ein.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/constraint_state.py" />
            <source>{name}: {host} cannot be told of it, so answers are not held to it.</source>
            <translation>{name}: {host} kann diese Vorgabe nicht entgegennehmen, Antworten sind darum nicht an sie gebunden.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_fit.py" />
            <source>The context is full: the oldest turns are being summarised for the model.</source>
            <translation>Der Kontext ist voll: Die ältesten Beiträge werden für das Modell zusammengefasst.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_fit.py" />
            <source>The oldest turns could not be summarised; they are left out.</source>
            <translation>Die ältesten Beiträge konnten nicht zusammengefasst werden; sie werden weggelassen.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/generation/context_use.py" />
            <source>%n oldest turns will be left out</source>
            <translation>
                <numerusform>%n ältester Beitrag wird weggelassen</numerusform>
                <numerusform>%n älteste Beiträge werden weggelassen</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/generation/context_use.py" />
            <source>%n oldest turns will be summarised</source>
            <translation>
                <numerusform>%n ältester Beitrag wird zusammengefasst</numerusform>
                <numerusform>%n älteste Beiträge werden zusammengefasst</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/generation/context_use.py" />
            <source>%n pictures above are not read</source>
            <translation>
                <numerusform>%n Bild weiter oben wird nicht gelesen</numerusform>
                <numerusform>%n Bilder weiter oben werden nicht gelesen</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>A model that reads no pictures is shown none; others are shown the last {count} of a chat.</source>
            <translation>Einem Modell, das keine Bilder liest, werden keine gezeigt, anderen die letzten {count} eines Chats.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>Click to choose what happens with a full context.</source>
            <translation>Klicken Sie, um zu wählen, was bei vollem Kontext geschieht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>What the model reads of this chat, the message above included, has {tokens:,} tokens.
Its context holds {context_tokens:,}; {room:,} of them are kept free for the answer.</source>
            <translation>Was das Modell von diesem Chat liest, mit der Nachricht oben, hat {tokens:,} Token.
Sein Kontext fasst {context_tokens:,}; davon bleiben {room:,} für die Antwort frei.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>With the next question these turns are no longer read:</source>
            <translation>Mit der nächsten Frage werden diese Beiträge nicht mehr gelesen:</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>With the next question these turns are read as a summary only:</source>
            <translation>Mit der nächsten Frage wird von diesen Beiträgen nur noch eine Zusammenfassung gelesen:</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>full</source>
            <translation>voll</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>nearly full: soon the oldest turns will be left out</source>
            <translation>fast voll: Bald werden die ältesten Beiträge weggelassen</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>nearly full: soon the oldest turns will be summarised</source>
            <translation>fast voll: Bald werden die ältesten Beiträge zusammengefasst</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>nearly full: the next answer may be cut off</source>
            <translation>fast voll: Die nächste Antwort kann abgeschnitten werden</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>the answer may still be cut off</source>
            <translation>die Antwort kann dennoch abgeschnitten werden</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>this question alone is too long to be answered</source>
            <translation>schon diese Frage allein ist zu lang für eine Antwort</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>too long to be answered</source>
            <translation>zu lang für eine Antwort</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/context_use.py" />
            <source>{tokens:,} of {context:,} tokens</source>
            <translation>{tokens:,} von {context:,} Token</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/controller.py" />
            <source>Choose a model that reads pictures in Models, then regenerate the answer.</source>
            <translation>Wählen Sie unter Modelle eines, das Bilder liest, und erzeugen Sie dann die Antwort neu.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/controller.py" />
            <source>Choose one in Models, then regenerate the answer.</source>
            <translation>Wählen Sie eines unter Modelle und lassen Sie neu antworten.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/controller.py" />
            <source>If the answer fails, start a new chat or restart the engine.</source>
            <translation>Falls die Antwort scheitert, beginnen Sie einen neuen Chat, oder starten Sie die Engine neu.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/controller.py" />
            <source>No model is loaded.</source>
            <translation>Es ist kein Modell geladen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/controller.py" />
            <source>Structured output…</source>
            <translation>Strukturierte Ausgabe …</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/controller.py" />
            <source>Switch off tools that this chat does not need, start a new chat, or load a larger context.</source>
            <translation>Schalten Sie Werkzeuge aus, die dieser Chat nicht braucht, beginnen Sie einen neuen Chat, oder laden Sie einen größeren Kontext.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/controller.py" />
            <source>The answer has called tools in {steps} steps, and waits for you to let it continue.</source>
            <translation>Die Antwort hat in {steps} Schritten Werkzeuge aufgerufen und wartet darauf, dass Sie sie fortsetzen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/controller.py" />
            <source>The length of this conversation could not be counted, so no turn was left out.</source>
            <translation>Die Länge dieses Chats konnte nicht gezählt werden; deshalb wurde nichts weggelassen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/form.py" />
            <source>Leave it empty for a random one.</source>
            <translation>Leer lassen für einen zufälligen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/form.py" />
            <source>The seed “{text}” is not a whole number.</source>
            <translation>Der Startwert „{text}“ ist keine ganze Zahl.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/formal_text.py" />
            <source>Choose another file.</source>
            <translation>Wählen Sie eine andere Datei.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/formal_text.py" />
            <source>Open a file: {what}</source>
            <translation>Datei öffnen: {what}</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/formal_text.py" />
            <source>Open a file…</source>
            <translation>Datei öffnen …</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/formal_text.py" />
            <source>Read the text from a file, in place of what is written here</source>
            <translation>Den Text aus einer Datei lesen, anstelle dessen, was hier steht</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/formal_text.py" />
            <source>{file} cannot be read: {reason}.</source>
            <translation>{file} kann nicht gelesen werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/formal_text.py" />
            <source>{name} is larger than {size} MB.</source>
            <translation>{name} ist größer als {size} MB.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/formal_text.py" />
            <source>{name} is no text in UTF-8.</source>
            <translation>{name} ist kein Text in UTF-8.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Back to what new chats begin with</source>
            <translation>Zurück zu dem, womit neue Chats beginnen</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Choose a preset first, or save one.</source>
            <translation>Wählen Sie erst eine Vorlage, oder speichern Sie eine.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Delete</source>
            <translation>Löschen</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>For this chat, from the next answer on.</source>
            <translation>Für diesen Chat, ab der nächsten Antwort.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Forget this preset; chats keep their settings</source>
            <translation>Diese Vorlage vergessen; Chats behalten ihre Einstellungen</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Generation settings</source>
            <translation>Antworteinstellungen</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Give the preset that was chosen this name</source>
            <translation>Der gewählten Vorlage diesen Namen geben</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Keep these settings under this name</source>
            <translation>Diese Einstellungen unter diesem Namen behalten</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Name of the preset</source>
            <translation>Name der Vorlage</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>New chats begin with this preset</source>
            <translation>Neue Chats beginnen mit dieser Vorlage</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>No preset: write a name to save one</source>
            <translation>Keine Vorlage: zum Speichern einen Namen eingeben</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Preset</source>
            <translation>Vorlage</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Rename</source>
            <translation>Umbenennen</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Reset</source>
            <translation>Zurücksetzen</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Save</source>
            <translation>Speichern</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>Settings kept under a name: choose one to use it in this chat, or write a new name.</source>
            <translation>Einstellungen unter einem Namen: eine wählen, um sie in diesem Chat zu verwenden, oder einen neuen Namen schreiben.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>{text} preset</source>
            <translation>Vorlage: {text}</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>“{name}” has these settings now.</source>
            <translation>„{name}“ hat jetzt diese Einstellungen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/popover.py" />
            <source>“{name}” was deleted.</source>
            <translation>„{name}“ wurde gelöscht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/presets.py" />
            <source>A preset needs a name.</source>
            <translation>Eine Vorlage braucht einen Namen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/presets.py" />
            <source>Choose another name.</source>
            <translation>Wählen Sie einen anderen Namen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/presets.py" />
            <source>Save the settings under this name first.</source>
            <translation>Speichern Sie die Einstellungen zuerst unter diesem Namen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/presets.py" />
            <source>The name has {count} letters.</source>
            <translation>Der Name hat {count} Buchstaben.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/presets.py" />
            <source>There is a preset “{name}” already.</source>
            <translation>Eine Vorlage „{name}“ gibt es schon.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/presets.py" />
            <source>There is no preset “{name}”.</source>
            <translation>Eine Vorlage „{name}“ gibt es nicht.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/presets.py" />
            <source>Use at most {count}.</source>
            <translation>Höchstens {count} sind möglich.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/presets.py" />
            <source>Write one into the field.</source>
            <translation>Schreiben Sie einen in das Feld.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>No draft model is loaded: only what the text repeats is guessed.</source>
            <translation>Es ist kein Entwurfsmodell geladen: Geraten wird nur, was der Text wiederholt.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>No speculation</source>
            <translation>Keine Spekulation</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>Of the last answer: {note}</source>
            <translation>Zur letzten Antwort: {note}</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>Speculation is switched off.</source>
            <translation>Die Spekulation ist ausgeschaltet.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>Speculation off</source>
            <translation>Spekulation aus</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>Speculation on</source>
            <translation>Spekulation an</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>Switched off for this chat: the target writes token by token.</source>
            <translation>Für diesen Chat ausgeschaltet: Das Zielmodell schreibt Token für Token.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>The engine's own speculation</source>
            <translation>Spekulation der Engine</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>The last answer was written without.</source>
            <translation>Die letzte Antwort wurde ohne geschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>The method {method} needs a draft model; none is loaded.</source>
            <translation>Das Verfahren {method} braucht ein Entwurfsmodell; es ist keines geladen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>{host} speculates, or does not, as it was started there.</source>
            <translation>{host} spekuliert oder nicht, so wie die Engine dort gestartet wurde.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation/speculation_state.py" />
            <source>{name} guesses ahead.</source>
            <translation>{name} rät voraus.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation_actions.py" />
            <source>No answer is being written.</source>
            <translation>Es wird keine Antwort geschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation_actions.py" />
            <source>The last answer is complete.</source>
            <translation>Die letzte Antwort ist vollständig.</translation>
        </message>
        <message>
            <location filename="../../app/chat/generation_actions.py" />
            <source>There are no tools to call.</source>
            <translation>Es gibt keine Werkzeuge, die aufgerufen werden könnten.</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Looking at picture {number} of {count}</source>
            <translation>Sieht Bild {number} von {count} an</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Looking at the picture</source>
            <translation>Sieht das Bild an</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Reading the question</source>
            <translation>Liest die Frage</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Reading the question: {share}</source>
            <translation>Liest die Frage: {share}</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Reading the question: {share}, {time} left</source>
            <translation>Liest die Frage: {share}, noch {time}</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Reading the results</source>
            <translation>Liest die Ergebnisse</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Reading the results: {share}</source>
            <translation>Liest die Ergebnisse: {share}</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Waiting for the tool {tool}</source>
            <translation>Wartet auf das Werkzeug {tool}</translation>
        </message>
        <message>
            <location filename="../../app/chat/history/answering.py" />
            <source>Waiting for your decision on the tool {tool}</source>
            <translation>Wartet auf Ihre Entscheidung über das Werkzeug {tool}</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/history/answering.py" />
            <source>Waiting: %n requests before this one</source>
            <translation>
                <numerusform>Wartet: noch %n Anfrage davor</numerusform>
                <numerusform>Wartet: noch %n Anfragen davor</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/history/records.py" />
            <source>New chat</source>
            <translation>Neuer Chat</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>90 % and more, or not known</source>
            <translation>ab 90 %, oder unbekannt</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>How likely the target found every token that it wrote, before temperature and filters. Answers of earlier versions have no probabilities.</source>
            <translation>Wie wahrscheinlich das Zielmodell jedes geschriebene Token fand, vor Temperatur und Filtern. Antworten früherer Versionen haben keine Wahrscheinlichkeiten.</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>How likely the target found this is not known.</source>
            <translation>Wie wahrscheinlich das Zielmodell das fand, ist nicht bekannt.</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>No tint</source>
            <translation>Keine Tönung</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>Probability</source>
            <translation>Wahrscheinlichkeit</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>The draft had guessed it.</source>
            <translation>Das Entwurfsmodell hatte es geraten.</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>The target added it itself.</source>
            <translation>Das Zielmodell hat es selbst angefügt.</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>The target gave this token {percent}.</source>
            <translation>Das Zielmodell gab diesem Token {percent}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>Tokens</source>
            <translation>Token</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>What the tint means</source>
            <translation>Was die Tönung bedeutet</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>Whose idea every token was; the target has checked them all.</source>
            <translation>Von wem jedes Token kam; geprüft hat sie alle das Zielmodell.</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>added by the target</source>
            <translation>vom Zielmodell angefügt</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>below 20 %</source>
            <translation>unter 20 %</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>from 20 %</source>
            <translation>ab 20 %</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>from 50 %</source>
            <translation>ab 50 %</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>guessed by the draft</source>
            <translation>vom Entwurfsmodell geraten</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>less than 0.1 %</source>
            <translation>weniger als 0,1 %</translation>
        </message>
        <message>
            <location filename="../../app/chat/origins/tint.py" />
            <source>more than 99 %</source>
            <translation>mehr als 99 %</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/panel.py" />
            <source>%n more files were not attached.</source>
            <translation>
                <numerusform>%n weitere Datei wurde nicht angehängt.</numerusform>
                <numerusform>%n weitere Dateien wurden nicht angehängt.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/panel.py" />
            <source>Chat</source>
            <translation>Chat</translation>
        </message>
        <message>
            <location filename="../../app/chat/pictures/thumbnail.py" />
            <source>Picture {name}, {size}</source>
            <translation>Bild {name}, {size}</translation>
        </message>
        <message>
            <location filename="../../app/chat/pictures/thumbnail.py" />
            <source>cannot be shown</source>
            <translation>kann nicht gezeigt werden</translation>
        </message>
        <message>
            <location filename="../../app/chat/pictures/viewer.py" />
            <source>Copied</source>
            <translation>Kopiert</translation>
        </message>
        <message>
            <location filename="../../app/chat/pictures/viewer.py" />
            <source>Copy</source>
            <translation>Kopieren</translation>
        </message>
        <message>
            <location filename="../../app/chat/pictures/viewer.py" />
            <source>Save as…</source>
            <translation>Speichern unter…</translation>
        </message>
        <message>
            <location filename="../../app/chat/pictures/viewer.py" />
            <source>Save picture</source>
            <translation>Bild speichern</translation>
        </message>
        <message>
            <location filename="../../app/chat/pictures/viewer.py" />
            <source>Saved as {name}.</source>
            <translation>Gespeichert als {name}.</translation>
        </message>
        <message>
            <location filename="../../app/chat/pictures/viewer.py" />
            <source>This picture cannot be shown.</source>
            <translation>Dieses Bild kann nicht gezeigt werden.</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Bring back the chats that are chosen</source>
            <translation>Die gewählten Chats zurückholen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Choose a chat first.</source>
            <translation>Wählen Sie erst einen Chat.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Delete %n chats for good?</source>
            <translation>
                <numerusform>%n Chat endgültig löschen?</numerusform>
                <numerusform>%n Chats endgültig löschen?</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Delete for good…</source>
            <translation>Endgültig löschen…</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Delete “{title}” for good?</source>
            <translation>„{title}“ endgültig löschen?</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Deleted chats are kept for 30 days. Until then they can be brought back.</source>
            <translation>Gelöschte Chats werden 30 Tage lang aufbewahrt. Bis dahin können sie zurückgeholt werden.</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Recently deleted</source>
            <translation>Kürzlich gelöscht</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Remove the chats that are chosen from the disk now</source>
            <translation>Die gewählten Chats jetzt vom Datenträger entfernen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>Restore</source>
            <translation>Wiederherstellen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>That is removed from the disk now, and cannot be brought back.</source>
            <translation>Das wird jetzt vom Datenträger entfernt und lässt sich nicht zurückholen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>There are none.</source>
            <translation>Es gibt keine.</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/deleted_dialog.py" />
            <source>{title} · deleted on {day}</source>
            <translation>{title} · gelöscht am {day}</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/model.py" />
            <source>Folder: {folder}</source>
            <translation>Ordner: {folder}</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/model.py" />
            <source>{folder}, collapsed folder</source>
            <translation>{folder}, zugeklappter Ordner</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/model.py" />
            <source>{folder}, folder</source>
            <translation>{folder}, Ordner</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Clear search</source>
            <translation>Suche leeren</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Collapse folder</source>
            <translation>Ordner zuklappen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Conversations</source>
            <translation>Gespräche</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Duplicate</source>
            <translation>Duplizieren</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Expand folder</source>
            <translation>Ordner aufklappen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Export…</source>
            <translation>Exportieren…</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Folder of “{title}”: a new name makes a folder, none takes it out.</source>
            <translation>Ordner von „{title}“: Ein neuer Name legt einen an, keiner nimmt den Chat heraus.</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Move to folder</source>
            <translation>In Ordner verschieben</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Name of the folder</source>
            <translation>Name des Ordners</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>New folder</source>
            <translation>Neuer Ordner</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>New folder…</source>
            <translation>Neuer Ordner…</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Nothing was found.</source>
            <translation>Nichts gefunden.</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Open in new window</source>
            <translation>In neuem Fenster öffnen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Out of folder</source>
            <translation>Aus dem Ordner nehmen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Pin</source>
            <translation>Anheften</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Recently deleted…</source>
            <translation>Kürzlich gelöscht…</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Remove folder, keep its chats</source>
            <translation>Ordner entfernen, Chats behalten</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Rename folder</source>
            <translation>Ordner umbenennen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Rename folder…</source>
            <translation>Ordner umbenennen…</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Search chats</source>
            <translation>Chats durchsuchen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Search conversations</source>
            <translation>Gespräche durchsuchen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Unpin</source>
            <translation>Lösen</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/panel.py" />
            <source>Your conversations will be listed here.</source>
            <translation>Hier werden Ihre Gespräche stehen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/rows.py" />
            <source>Earlier</source>
            <translation>Früher</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/rows.py" />
            <source>In messages</source>
            <translation>In Nachrichten</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/rows.py" />
            <source>In titles</source>
            <translation>In Titeln</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/rows.py" />
            <source>Pinned</source>
            <translation>Angeheftet</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/rows.py" />
            <source>Previous 30 days</source>
            <translation>Letzte 30 Tage</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/rows.py" />
            <source>Previous 7 days</source>
            <translation>Letzte 7 Tage</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/rows.py" />
            <source>Today</source>
            <translation>Heute</translation>
        </message>
        <message>
            <location filename="../../app/chat/sidebar/rows.py" />
            <source>Yesterday</source>
            <translation>Gestern</translation>
        </message>
        <message>
            <location filename="../../app/chat/text/links.py" />
            <source>It leads to: {address}</source>
            <translation>Er führt zu: {address}</translation>
        </message>
        <message>
            <location filename="../../app/chat/text/links.py" />
            <source>It reads: {text}</source>
            <translation>Dort steht: {text}</translation>
        </message>
        <message>
            <location filename="../../app/chat/text/links.py" />
            <source>Open a link</source>
            <translation>Link öffnen</translation>
        </message>
        <message>
            <location filename="../../app/chat/text/links.py" />
            <source>Open anyway</source>
            <translation>Trotzdem öffnen</translation>
        </message>
        <message>
            <location filename="../../app/chat/text/links.py" />
            <source>The text of this link looks like an address, but the link leads to another one.</source>
            <translation>Der Text dieses Links sieht wie eine Adresse aus, aber der Link führt zu einer anderen.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>%n passes</source>
            <translation>
                <numerusform>%n Durchlauf</numerusform>
                <numerusform>%n Durchläufe</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>%n tokens</source>
            <translation>
                <numerusform>%n Token</numerusform>
                <numerusform>%n Token</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>All the time that the answer took</source>
            <translation>Die ganze Zeit, die die Antwort brauchte</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Cut off at %n tokens</source>
            <translation>
                <numerusform>Nach %n Token abgeschnitten</numerusform>
                <numerusform>Nach %n Token abgeschnitten</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Draft</source>
            <translation>Entwurf</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Draft, while layers came</source>
            <translation>Entwurf, während Schichten kamen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Interrupted: Coppice was closed</source>
            <translation>Unterbrochen: Coppice wurde geschlossen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Interrupted: the connection broke</source>
            <translation>Unterbrochen: Die Verbindung ist abgerissen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Interrupted: the engine stopped</source>
            <translation>Unterbrochen: Der Rechenprozess hat aufgehört</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Length of the answer in tokens</source>
            <translation>Länge der Antwort in Token</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Loading</source>
            <translation>Lädt</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Not answered</source>
            <translation>Nicht beantwortet</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Other</source>
            <translation>Übriges</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Others have asked the same models before. Whoever asks is answered in turn.</source>
            <translation>Andere haben dieselben Modelle vorher gefragt. Wer fragt, kommt der Reihe nach dran.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Speculation: {method}</source>
            <translation>Spekulation: {method}</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Speculation: {method}, %n nodes a pass</source>
            <translation>
                <numerusform>Spekulation: {method}, %n Knoten je Durchlauf</numerusform>
                <numerusform>Spekulation: {method}, %n Knoten je Durchlauf</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Stopped</source>
            <translation>Angehalten</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Target</source>
            <translation>Zielmodell</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>The answer reached the length limit or filled the context. The limit is in Generation settings.</source>
            <translation>Die Antwort hat die Höchstlänge erreicht oder den Kontext gefüllt. Die Höchstlänge steht in den Antworteinstellungen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>The models take in the conversation before the first token comes</source>
            <translation>Die Modelle nehmen das Gespräch auf, bevor das erste Token kommt</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Tokens of the answer per pass of the target model. Without speculation this is 1; the more the draft guesses right, the higher it is.</source>
            <translation>Token der Antwort je Durchlauf des Zielmodells. Ohne Spekulation ist das 1; je mehr das Entwurfsmodell richtig rät, desto mehr werden es.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Tokens of the answer per second of decoding; reading the question is not counted</source>
            <translation>Token der Antwort je Sekunde des Schreibens; das Lesen der Frage zählt nicht mit</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Waiting for the model</source>
            <translation>Wartet auf das Modell</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Where the time went</source>
            <translation>Wo die Zeit blieb</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Who wrote this answer: the model, and where its engine runs</source>
            <translation>Wer diese Antwort geschrieben hat: das Modell und wo seine Engine läuft</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Why there is no more of this answer</source>
            <translation>Warum von dieser Antwort nicht mehr da ist</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Writing the answer</source>
            <translation>Antwort schreiben</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>Written by {models}</source>
            <translation>Geschrieben von {models}</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>first token {seconds:.2f} s</source>
            <translation>erstes Token {seconds:.2f} s</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>{rate:.1f} tokens per pass</source>
            <translation>{rate:.1f} Token je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_figures.py" />
            <source>{rate:.1f} tokens/s</source>
            <translation>{rate:.1f} Token/s</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_steps.py" />
            <source>Answer text</source>
            <translation>Text der Antwort</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Answer</source>
            <translation>Antwort</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Branch from here into a new chat</source>
            <translation>Von hier in einen neuen Chat abzweigen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Compare answers</source>
            <translation>Antworten vergleichen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Copy answer</source>
            <translation>Antwort kopieren</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Delete question and answer</source>
            <translation>Frage und Antwort löschen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Delete this version</source>
            <translation>Diese Fassung löschen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Edit answer</source>
            <translation>Antwort bearbeiten</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Regenerate answer</source>
            <translation>Neu antworten</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>Regenerate answer: what follows stays with this version</source>
            <translation>Neu antworten: Was folgt, bleibt bei dieser Version</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/answer_view.py" />
            <source>This answer has no text.</source>
            <translation>Diese Antwort hat keinen Text.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Allow once</source>
            <translation>Einmal erlauben</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Always allow this tool</source>
            <translation>Dieses Werkzeug immer erlauben</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Arguments</source>
            <translation>Argumente</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Asks for permission</source>
            <translation>Bittet um Erlaubnis</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Declined</source>
            <translation>Abgelehnt</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Deny</source>
            <translation>Ablehnen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Done</source>
            <translation>Fertig</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Done in {time}</source>
            <translation>Fertig nach {time}</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Failed</source>
            <translation>Fehlgeschlagen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Hide the details</source>
            <translation>Einzelheiten verbergen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Is being written…</source>
            <translation>Wird geschrieben …</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>It is called without asking from now on, in every chat, until you change that in Preferences.</source>
            <translation>Es wird von nun an ohne Nachfrage aufgerufen, in jedem Chat, bis Sie das in den Einstellungen ändern.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Not called</source>
            <translation>Nicht aufgerufen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Result</source>
            <translation>Ergebnis</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Running: {progress}</source>
            <translation>Läuft: {progress}</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Running…</source>
            <translation>Läuft …</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Show arguments and result</source>
            <translation>Argumente und Ergebnis zeigen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>The model is told that you declined, and goes on.</source>
            <translation>Dem Modell wird gesagt, dass Sie abgelehnt haben, und es fährt fort.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>The model wants to call this tool of the server “{server}” with:</source>
            <translation>Das Modell möchte dieses Werkzeug des Servers „{server}“ aufrufen, mit:</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>The model wants to call this tool of the server “{server}” without arguments.</source>
            <translation>Das Modell möchte dieses Werkzeug des Servers „{server}“ ohne Argumente aufrufen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>The server says that it changes nothing.</source>
            <translation>Der Server sagt, dass es nichts verändert.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/call_card.py" />
            <source>Tool {tool}: {state}</source>
            <translation>Werkzeug {tool}: {state}</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/conversation_view.py" />
            <source>Conversation</source>
            <translation>Gespräch</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/conversation_view.py" />
            <source>Scroll to the end of the conversation</source>
            <translation>Zum Ende des Gesprächs rollen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/conversation_view.py" />
            <source>To the end of the conversation</source>
            <translation>Zum Ende des Gesprächs</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>Cancel</source>
            <translation>Abbrechen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>Earlier version</source>
            <translation>Frühere Fassung</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>Edit message</source>
            <translation>Nachricht bearbeiten</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>Later version</source>
            <translation>Spätere Fassung</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>Leave the message as it is (Esc)</source>
            <translation>Die Nachricht lassen, wie sie ist (Esc)</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>Shift+Enter</source>
            <translation>Umschalt+Eingabe</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>This is the first version.</source>
            <translation>Das ist die erste Version.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>This is the last version.</source>
            <translation>Das ist die letzte Version.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>This message is too long to be edited here. It can be copied.</source>
            <translation>Diese Nachricht ist zu lang, um hier bearbeitet zu werden. Sie lässt sich kopieren.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>This text is too long to be pasted here. It can be attached as a file.</source>
            <translation>Dieser Text ist zu lang, um hier eingefügt zu werden. Er lässt sich als Datei anhängen.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>Version {value} of {count}</source>
            <translation>Fassung {value} von {count}</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/message_tools.py" />
            <source>{key}: new line</source>
            <translation>{key}: neue Zeile</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>Attached files</source>
            <translation>Angehängte Dateien</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>Copy question</source>
            <translation>Frage kopieren</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>Earlier turns are no longer read</source>
            <translation>Frühere Nachrichten werden nicht mehr gelesen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>Edit question</source>
            <translation>Frage bearbeiten</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>Of earlier turns a summary is read</source>
            <translation>Von früheren Beiträgen wird eine Zusammenfassung gelesen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>Question</source>
            <translation>Frage</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>Question text</source>
            <translation>Text der Frage</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>The context is full: to make room for an answer, the model begins to read here.</source>
            <translation>Der Kontext ist voll: Damit Platz für eine Antwort bleibt, liest das Modell erst ab hier.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>The context is nearly full: what stands above makes room for the next answer.</source>
            <translation>Der Kontext ist fast voll: Was darüber steht, macht Platz für die nächste Antwort.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>This question has no text.</source>
            <translation>Diese Frage hat keinen Text.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>With the next question, a summary is read of what stands above</source>
            <translation>Mit der nächsten Frage wird vom Text darüber eine Zusammenfassung gelesen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/question_view.py" />
            <source>With the next question, reading begins here</source>
            <translation>Mit der nächsten Frage beginnt das Lesen hier</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>Hide the thinking</source>
            <translation>Überlegungen verbergen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>Show the thinking</source>
            <translation>Überlegungen zeigen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>Thinking</source>
            <translation>Überlegungen</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>Thinking for {time}…</source>
            <translation>Überlegt seit {time} …</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>Thinking…</source>
            <translation>Überlegt …</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>Thought</source>
            <translation>Überlegt</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>Thought for {time}</source>
            <translation>{time} lang überlegt</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>{minutes} min {seconds} s</source>
            <translation>{minutes} min {seconds} s</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/thought_view.py" />
            <source>{seconds} s</source>
            <translation>{seconds} s</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/welcome.py" />
            <source>A draft model guesses ahead, the target checks its guesses. Ctrl+T shows them as a tree.</source>
            <translation>Ein Entwurfsmodell rät voraus, das Zielmodell prüft die Vermutungen. Strg+T zeigt sie als Baum.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/welcome.py" />
            <source>Ask: {text}</source>
            <translation>Fragen: {text}</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/welcome.py" />
            <source>The embedded demo is a tiny model: it chats a little and tells short stories, and it is often wrong. Load your own in Models (Ctrl+M).</source>
            <translation>Die eingebaute Vorführung ist ein winziges Modell: Es plaudert ein wenig und erzählt kurze Geschichten (auf Englisch), und es irrt sich oft. Laden Sie ein eigenes unter Modelle (Strg+M).</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/welcome.py" />
            <source>What shall we talk about?</source>
            <translation>Worüber wollen wir reden?</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/welcome.py" />
            <source>{answerer} answers.</source>
            <translation>{answerer} antwortet.</translation>
        </message>
        <message>
            <location filename="../../app/chat/view/why_line.py" />
            <source>Click to see it in Telemetry.</source>
            <translation>Ein Klick zeigt es in der Telemetrie.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/candidates.py" />
            <source>As before, by {models}</source>
            <translation>Wie zuvor, von {models}</translation>
        </message>
        <message>
            <location filename="../../app/comparison/candidates.py" />
            <source>The answer as it is</source>
            <translation>Die Antwort, wie sie ist</translation>
        </message>
        <message>
            <location filename="../../app/comparison/candidates.py" />
            <source>The answer as it is, version {number} of {count}</source>
            <translation>Die Antwort, wie sie ist, Fassung {number} von {count}</translation>
        </message>
        <message>
            <location filename="../../app/comparison/candidates.py" />
            <source>Version {number} of {count}</source>
            <translation>Fassung {number} von {count}</translation>
        </message>
        <message>
            <location filename="../../app/comparison/candidates.py" />
            <source>Write again: as before, by {models}</source>
            <translation>Neu schreiben: wie zuvor, von {models}</translation>
        </message>
        <message>
            <location filename="../../app/comparison/candidates.py" />
            <source>Write again: {method}</source>
            <translation>Neu schreiben: {method}</translation>
        </message>
        <message>
            <location filename="../../app/comparison/candidates.py" />
            <source>Written by hand, or by an engine that does not tell how</source>
            <translation>Von Hand geschrieben, oder von einer Engine, die nicht sagt, wie</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/column.py" />
            <source>%n tokens so far</source>
            <translation>
                <numerusform>%n Token bisher</numerusform>
                <numerusform>%n Token bisher</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/column.py" />
            <source>It gets %n tokens, as many as the answer has.</source>
            <translation>
                <numerusform>Es bekommt %n Token, so viele, wie die Antwort hat.</numerusform>
                <numerusform>Es bekommt %n Token, so viele, wie die Antwort hat.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>Not written yet. “Write it” asks the question again; the conversation stays as it is.</source>
            <translation>Noch nicht geschrieben. „Schreiben“ stellt die Frage noch einmal; die Unterhaltung bleibt, wie sie ist.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>Progress of {column}</source>
            <translation>Fortschritt von {column}</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>Text of {column}</source>
            <translation>Text von {column}</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>The question is asked again beside the conversation, which stays as it is.</source>
            <translation>Die Frage wird neben der Unterhaltung noch einmal gestellt; diese bleibt, wie sie ist.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>The seed of the answer is not kept: other tokens may be drawn.</source>
            <translation>Der Startwert der Antwort ist nicht aufgehoben: Es können andere Token gezogen werden.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>To compare with other models, load them in Models meanwhile: this window stays open.</source>
            <translation>Um mit anderen Modellen zu vergleichen, diese währenddessen unter Modelle laden: Dieses Fenster bleibt offen.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>What {column} shows</source>
            <translation>Was {column} zeigt</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>Write it</source>
            <translation>Schreiben</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>Write it again</source>
            <translation>Neu schreiben</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>done after {seconds:.2f} s</source>
            <translation>fertig nach {seconds:.2f} s</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>too long to be shown: these are its first {count} characters, “Copy as text” has all</source>
            <translation>zu lang, um ganz gezeigt zu werden: Dies sind die ersten {count} Zeichen, „Als Text kopieren“ hat alle</translation>
        </message>
        <message>
            <location filename="../../app/comparison/column.py" />
            <source>when its tokens came is not kept: they are spread evenly</source>
            <translation>wann seine Token kamen, ist nicht aufgehoben: Sie sind gleichmäßig verteilt</translation>
        </message>
        <message>
            <location filename="../../app/comparison/dialog.py" />
            <source>An answer is being written: wait for its end, or cancel it.</source>
            <translation>Eine Antwort wird geschrieben: Warten Sie ihr Ende ab, oder brechen Sie sie ab.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/dialog.py" />
            <source>Close</source>
            <translation>Schließen</translation>
        </message>
        <message>
            <location filename="../../app/comparison/dialog.py" />
            <source>Copy as text</source>
            <translation>Als Text kopieren</translation>
        </message>
        <message>
            <location filename="../../app/comparison/dialog.py" />
            <source>Copy both answers with their figures</source>
            <translation>Beide Antworten mit ihren Zahlen kopieren</translation>
        </message>
        <message>
            <location filename="../../app/comparison/dialog.py" />
            <source>First difference</source>
            <translation>Erster Unterschied</translation>
        </message>
        <message>
            <location filename="../../app/comparison/dialog.py" />
            <source>Token {number}</source>
            <translation>Token {number}</translation>
        </message>
        <message>
            <location filename="../../app/comparison/dialog.py" />
            <source>{column}: {token} after {seconds:.2f} s</source>
            <translation>{column}: {token} nach {seconds:.2f} s</translation>
        </message>
        <message>
            <location filename="../../app/comparison/feature.py" />
            <source>Ask something, and wait for the end of the answer.</source>
            <translation>Etwas fragen und das Ende der Antwort abwarten.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/feature.py" />
            <source>There is no answer to compare yet.</source>
            <translation>Es gibt noch keine Antwort, die verglichen werden kann.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/figures_table.py" />
            <source>How many times the figure of A is that of B</source>
            <translation>Das Wievielfache von B die Zahl von A ist</translation>
        </message>
        <message>
            <location filename="../../app/comparison/race_bar.py" />
            <source>1× is the speed at which they were written</source>
            <translation>1× ist das Tempo, in dem sie geschrieben wurden</translation>
        </message>
        <message>
            <location filename="../../app/comparison/race_bar.py" />
            <source>Pace of the race</source>
            <translation>Tempo des Rennens</translation>
        </message>
        <message>
            <location filename="../../app/comparison/race_bar.py" />
            <source>Pause</source>
            <translation>Anhalten</translation>
        </message>
        <message>
            <location filename="../../app/comparison/race_bar.py" />
            <source>Replay</source>
            <translation>Abspielen</translation>
        </message>
        <message>
            <location filename="../../app/comparison/race_bar.py" />
            <source>Shows how both answers came, each at its own speed. Reading the question is left out.</source>
            <translation>Zeigt, wie beide Antworten kamen, jede in ihrem eigenen Tempo. Das Lesen der Frage ist weggelassen.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/race_bar.py" />
            <source>Time of the race</source>
            <translation>Zeit des Rennens</translation>
        </message>
        <message>
            <location filename="../../app/comparison/race_bar.py" />
            <source>{now:.2f} of {whole:.2f} s</source>
            <translation>{now:.2f} von {whole:.2f} s</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>A was {ratio} times as fast as B: {first} against {second} tokens/s.</source>
            <translation>A war {ratio}-mal so schnell wie B: {first} gegen {second} Token/s.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>B was {ratio} times as fast as A: {second} against {first} tokens/s.</source>
            <translation>B war {ratio}-mal so schnell wie A: {second} gegen {first} Token/s.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Both were about as fast: {first} and {second} tokens/s.</source>
            <translation>Beide waren etwa gleich schnell: {first} und {second} Token/s.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Experts per pass</source>
            <translation>Experten je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Guessed tokens</source>
            <translation>Geratene Token</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Of these, computed as stored</source>
            <translation>Davon gerechnet, wie gespeichert</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Passes</source>
            <translation>Durchläufe</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Seconds of writing</source>
            <translation>Sekunden des Schreibens</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Seconds to the first token</source>
            <translation>Sekunden bis zum ersten Token</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n characters; then {first} in A, {second} in B.</source>
            <translation>
                <numerusform>%n Zeichen lang gleich; dann {first} in A, {second} in B.</numerusform>
                <numerusform>%n Zeichen lang gleich; dann {first} in A, {second} in B.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n characters; there A ends.</source>
            <translation>
                <numerusform>%n Zeichen lang gleich; dort endet A.</numerusform>
                <numerusform>%n Zeichen lang gleich; dort endet A.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n characters; there B ends.</source>
            <translation>
                <numerusform>%n Zeichen lang gleich; dort endet B.</numerusform>
                <numerusform>%n Zeichen lang gleich; dort endet B.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n tokens; then {first} in A, {second} in B.</source>
            <translation>
                <numerusform>%n Token lang gleich; dann {first} in A, {second} in B.</numerusform>
                <numerusform>%n Token lang gleich; dann {first} in A, {second} in B.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n tokens; there A ends.</source>
            <translation>
                <numerusform>%n Token lang gleich; dort endet A.</numerusform>
                <numerusform>%n Token lang gleich; dort endet A.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>The same for %n tokens; there B ends.</source>
            <translation>
                <numerusform>%n Token lang gleich; dort endet B.</numerusform>
                <numerusform>%n Token lang gleich; dort endet B.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>The texts are the same.</source>
            <translation>Die Texte sind gleich.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>They part with the first token: {first} in A, {second} in B.</source>
            <translation>Sie trennen sich beim ersten Token: {first} in A, {second} in B.</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Tokens per pass</source>
            <translation>Token je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>Tokens per second</source>
            <translation>Token je Sekunde</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/comparison/words.py" />
            <source>{method}, %n nodes</source>
            <translation>
                <numerusform>{method}, %n Knoten</numerusform>
                <numerusform>{method}, %n Knoten</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/comparison/words.py" />
            <source>“{words}”</source>
            <translation>„{words}“</translation>
        </message>
        <message>
            <location filename="../../app/downloads/disk.py" />
            <source>Free some space, then resume; what has arrived is kept.</source>
            <translation>Schaffen Sie Platz, dann setzen Sie fort; was angekommen ist, bleibt.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/disk.py" />
            <source>{size} more are needed on the disk of {folder}.</source>
            <translation>Auf der Platte von {folder} fehlen {size}.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/download.py" />
            <source>Check the folder and its permissions, then resume.</source>
            <translation>Prüfen Sie den Ordner und seine Rechte, dann setzen Sie fort.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/download.py" />
            <source>Give a branch, a tag or a commit.</source>
            <translation>Geben Sie einen Zweig, ein Tag oder einen Commit an.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/download.py" />
            <source>Give one like 'org/name'.</source>
            <translation>Geben Sie einen wie „org/name“ an.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/download.py" />
            <source>Look into the log, then resume.</source>
            <translation>Sehen Sie in das Protokoll, dann setzen Sie fort.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/download.py" />
            <source>That is not the name of a model on the hub.</source>
            <translation>Das ist kein Name eines Modells auf dem Hub.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/download.py" />
            <source>That is not the name of a revision.</source>
            <translation>Das ist kein Name einer Revision.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/download.py" />
            <source>The download of {name} has ended because of an error in this program.</source>
            <translation>Der Download von {name} endete durch einen Fehler in diesem Programm.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/download.py" />
            <source>{place} cannot be written: {reason}.</source>
            <translation>{place} kann nicht geschrieben werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/transfer.py" />
            <source>Check the connection, then resume; what has arrived is kept.</source>
            <translation>Prüfen Sie die Verbindung, dann setzen Sie fort; was angekommen ist, bleibt.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/transfer.py" />
            <source>Try again later; if it happens again, tell the model's authors.</source>
            <translation>Versuchen Sie es später; geschieht es wieder, sagen Sie es den Verfassern des Modells.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/transfer.py" />
            <source>another program is downloading this file</source>
            <translation>ein anderes Programm lädt diese Datei herunter</translation>
        </message>
        <message>
            <location filename="../../app/downloads/transfer.py" />
            <source>the connection ended early</source>
            <translation>die Verbindung endete zu früh</translation>
        </message>
        <message>
            <location filename="../../app/downloads/transfer.py" />
            <source>the server sent another part than we asked for</source>
            <translation>der Server schickte einen anderen Teil als den verlangten</translation>
        </message>
        <message>
            <location filename="../../app/downloads/transfer.py" />
            <source>{file} of {name} arrived damaged twice: its checksum is not the one the hub names.</source>
            <translation>{file} von {name} kam zweimal beschädigt an: Die Prüfsumme ist nicht die, die der Hub nennt.</translation>
        </message>
        <message>
            <location filename="../../app/downloads/transfer.py" />
            <source>{reason}, {count} times in a row.</source>
            <translation>{reason}, {count}-mal hintereinander.</translation>
        </message>
        <message>
            <location filename="../../app/engine/kept_texts.py" />
            <source>Answers are not affected: such a chat is read again when it is opened the next time.</source>
            <translation>Antworten sind nicht betroffen: Ein solcher Chat wird beim nächsten Mal neu gelesen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>Check the installation, then restart it.</source>
            <translation>Prüfen Sie die Installation und starten Sie ihn dann neu.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>Restart it.</source>
            <translation>Starten Sie ihn neu.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>Restart it; the log tells more.</source>
            <translation>Starten Sie sie neu; das Protokoll sagt mehr.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>The connection to the engine failed because of an error in this program ({error}).</source>
            <translation>Die Verbindung zur Engine scheiterte wegen eines Fehlers in diesem Programm ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>The engine could not be started: {error}.</source>
            <translation>Der Rechenprozess konnte nicht gestartet werden: {error}.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>The engine did not introduce itself.</source>
            <translation>Der Rechenprozess hat sich nicht gemeldet.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>The engine is not running.</source>
            <translation>Der Rechenprozess läuft nicht.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>The engine sent something that cannot be read ({error}).</source>
            <translation>Der Rechenprozess hat etwas geschickt, das nicht gelesen werden kann ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>The engine speaks version {its} of the protocol, this window version {ours}: they come from different installations.</source>
            <translation>Der Rechenprozess spricht Version {its} des Protokolls, dieses Fenster Version {ours}: sie stammen aus verschiedenen Installationen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>The engine was restarted.</source>
            <translation>Der Rechenprozess wurde neu gestartet.</translation>
        </message>
        <message>
            <location filename="../../app/engine/link.py" />
            <source>What it printed last is in {file}.</source>
            <translation>Was er zuletzt ausgegeben hat, steht in {file}.</translation>
        </message>
        <message>
            <location filename="../../app/engine/process.py" />
            <source>The engine could not read what the window told it, and ended.</source>
            <translation>Der Rechenprozess konnte nicht lesen, was ihm das Fenster mitteilte, und hat sich beendet.</translation>
        </message>
        <message>
            <location filename="../../app/engine/process.py" />
            <source>The engine crashed ({signal}).</source>
            <translation>Der Rechenprozess ist abgestürzt ({signal}).</translation>
        </message>
        <message>
            <location filename="../../app/engine/process.py" />
            <source>The engine ended by itself.</source>
            <translation>Der Rechenprozess hat sich von selbst beendet.</translation>
        </message>
        <message>
            <location filename="../../app/engine/process.py" />
            <source>The engine ended with exit code {code}.</source>
            <translation>Der Rechenprozess hat sich mit Code {code} beendet.</translation>
        </message>
        <message>
            <location filename="../../app/engine/process.py" />
            <source>The engine was ended from outside.</source>
            <translation>Der Rechenprozess wurde von außen beendet.</translation>
        </message>
        <message>
            <location filename="../../app/engine/process.py" />
            <source>The engine was killed, perhaps because memory ran out.</source>
            <translation>Der Rechenprozess wurde abgebrochen, vielleicht weil der Speicher nicht reichte.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/addresses.py" />
            <source>Give one like http://192.168.0.7:8000 or https://example.org.</source>
            <translation>Geben Sie eine an wie http://192.168.0.7:8000 oder https://example.org.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/addresses.py" />
            <source>Leave them out; the key has a field of its own.</source>
            <translation>Lassen Sie sie weg; der Schlüssel hat ein eigenes Feld.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/addresses.py" />
            <source>The address holds a name or a password.</source>
            <translation>Die Adresse enthält einen Namen oder ein Passwort.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/addresses.py" />
            <source>The address of the engine cannot be used: {address}.</source>
            <translation>Die Adresse der Engine ist nicht zu gebrauchen: {address}.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/addresses.py" />
            <source>The connection is not encrypted: everybody in {host}'s network can read the key and the chats.</source>
            <translation>Die Verbindung ist nicht verschlüsselt: Jeder im Netz von {host} kann den Schlüssel und die Chats mitlesen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/addresses.py" />
            <source>it is empty</source>
            <translation>sie ist leer</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/answer.py" />
            <source>Look into the engine's log there, and try again.</source>
            <translation>Sehen Sie dort im Protokoll der Engine nach, und versuchen Sie es noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/answer.py" />
            <source>The engine at {host} failed: {reason}</source>
            <translation>Die Engine auf {host} ist gescheitert: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/answer.py" />
            <source>an answer without an end</source>
            <translation>eine Antwort ohne Ende</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/answer.py" />
            <source>it does not say why</source>
            <translation>sie sagt nicht, warum</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/answer.py" />
            <source>it is no JSON object</source>
            <translation>es ist kein JSON-Objekt</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/constraints.py" />
            <source>Correct it in the generation settings.</source>
            <translation>Berichtigen Sie es in den Generierungseinstellungen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/constraints.py" />
            <source>The JSON schema is no JSON.</source>
            <translation>Das JSON-Schema ist kein JSON.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Check its name, and whether this computer is in its network.</source>
            <translation>Prüfen Sie seinen Namen und ob dieser Computer in seinem Netz ist.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Check that it is switched on, and that no firewall is between.</source>
            <translation>Prüfen Sie, ob der Rechner läuft und keine Firewall dazwischen ist.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Check that the address is that of an engine with an OpenAI-compatible API.</source>
            <translation>Prüfen Sie, ob die Adresse die einer Engine mit OpenAI-kompatibler Schnittstelle ist.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Check the address; such APIs lie at /v1 of their host.</source>
            <translation>Prüfen Sie die Adresse; solche Schnittstellen liegen unter /v1 ihres Rechners.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Check the generation settings of this chat: not every engine knows all of them.</source>
            <translation>Prüfen Sie die Einstellungen dieses Chats: Nicht jede Engine kennt alle.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Check the network and the address.</source>
            <translation>Prüfen Sie das Netz und die Adresse.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Connect anew in Models, Engines, and choose one that it has.</source>
            <translation>Verbinden Sie sich unter Modelle, Engines neu, und wählen Sie eines, das es dort gibt.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Give another key in Models, Engines.</source>
            <translation>Geben Sie unter Modelle, Engines einen anderen Schlüssel an.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>If you trust it, connect to that address: neither key nor chat is sent there otherwise.</source>
            <translation>Wenn Sie ihr trauen, verbinden Sie sich mit jener Adresse: Sonst gehen weder Schlüssel noch Chat dorthin.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Nothing listens at {host}.</source>
            <translation>Unter {host} antwortet nichts.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Start a new chat, shorten the message, or have the engine started with a longer context.</source>
            <translation>Beginnen Sie einen neuen Chat, kürzen Sie die Nachricht, oder lassen Sie die Engine mit längerem Kontext starten.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Start the engine there, and check the port and the address that it listens at.</source>
            <translation>Starten Sie dort die Engine, und prüfen Sie, auf welchem Port und an welcher Adresse sie lauscht.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>The certificate of {host} cannot be trusted: {reason}.</source>
            <translation>Dem Zertifikat von {host} ist nicht zu trauen: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>The connection to {host} broke.</source>
            <translation>Die Verbindung zu {host} ist abgerissen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>The conversation is too long for {model} at {host}: {reason}</source>
            <translation>Die Unterhaltung ist zu lang für {model} auf {host}: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>The host {host} was not found.</source>
            <translation>Der Rechner {host} wurde nicht gefunden.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>The key was not sent to {host}: the connection is not encrypted, and leaves your network.</source>
            <translation>Der Schlüssel wurde nicht an {host} gesendet: Die Verbindung ist nicht verschlüsselt und verlässt Ihr Netz.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>The text so far stays. Continue the answer, or ask again, when the engine can be reached.</source>
            <translation>Der bisherige Text bleibt. Setzen Sie die Antwort fort, oder fragen Sie noch einmal, sobald die Engine erreichbar ist.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>The text so far stays. The engine may be overloaded; continue the answer, or ask again later.</source>
            <translation>Der bisherige Text bleibt. Vielleicht ist die Engine überlastet; setzen Sie die Antwort fort, oder fragen Sie später noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Try again in a while.</source>
            <translation>Versuchen Sie es in einer Weile noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Try again in {seconds} seconds.</source>
            <translation>Versuchen Sie es in {seconds} Sekunden noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Use an address that begins with https://.</source>
            <translation>Nehmen Sie eine Adresse, die mit https:// beginnt.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Use http:// if the engine is in your own network.</source>
            <translation>Nehmen Sie http://, wenn die Engine in Ihrem eigenen Netz ist.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>Use the name that the certificate is for, or install its authority on this computer.</source>
            <translation>Nehmen Sie den Namen, für den das Zertifikat gilt, oder installieren Sie dessen Aussteller auf diesem Computer.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>none</source>
            <translation>keine</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>status {number}</source>
            <translation>Status {number}</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} answers too slowly.</source>
            <translation>{host} antwortet zu langsam.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} cannot be reached.</source>
            <translation>{host} ist nicht erreichbar.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} cannot be reached: {reason}.</source>
            <translation>{host} ist nicht erreichbar: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} does not accept the key.</source>
            <translation>{host} nimmt den Schlüssel nicht an.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} does not answer.</source>
            <translation>{host} antwortet nicht.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} does not speak TLS.</source>
            <translation>{host} spricht kein TLS.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} has no model {model}.</source>
            <translation>{host} hat kein Modell {model}.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} has no such address: it is no OpenAI-compatible API.</source>
            <translation>{host} kennt diese Adresse nicht: Es ist keine OpenAI-kompatible Schnittstelle.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} has said nothing for {minutes} minutes.</source>
            <translation>{host} hat seit {minutes} Minuten nichts gesagt.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} has too much to do, or you have asked too often.</source>
            <translation>{host} hat zu viel zu tun, oder Sie haben zu oft gefragt.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} points to another address: {target}.</source>
            <translation>{host} verweist auf eine andere Adresse: {target}.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} refused the request: {reason}</source>
            <translation>{host} hat die Anfrage abgelehnt: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/failures.py" />
            <source>{host} sent what cannot be read: {reason}.</source>
            <translation>Was {host} gesendet hat, ist nicht lesbar: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/figures.py" />
            <source>Speculation was counted over all answers that the engine wrote meanwhile; others may be among them.</source>
            <translation>Die Spekulation wurde über alle Antworten gezählt, die die Engine inzwischen schrieb; fremde können darunter sein.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/keys.py" />
            <source>Copy it again.</source>
            <translation>Kopieren Sie ihn noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/keys.py" />
            <source>This is no key: it holds spaces, or letters that no key has.</source>
            <translation>Das ist kein Schlüssel: Er enthält Leerzeichen oder Buchstaben, die kein Schlüssel hat.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/servers.py" />
            <source>Load one there, or start it with one.</source>
            <translation>Laden Sie dort eines, oder starten Sie die Engine mit einem.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/servers.py" />
            <source>its list of models is none</source>
            <translation>ihre Modellliste ist keine</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/servers.py" />
            <source>{host} has no model.</source>
            <translation>{host} hat kein Modell.</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/wire.py" />
            <source>a line without an end</source>
            <translation>eine Zeile ohne Ende</translation>
        </message>
        <message>
            <location filename="../../app/engine/remote/wire.py" />
            <source>more than {size} MB</source>
            <translation>mehr als {size} MB</translation>
        </message>
        <message>
            <location filename="../../app/engine/side_run.py" />
            <source>Another comparison is running. Wait for its end, or cancel it.</source>
            <translation>Ein anderer Vergleich läuft. Sein Ende abwarten oder ihn abbrechen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/side_run.py" />
            <source>The comparison was cancelled.</source>
            <translation>Der Vergleich wurde abgebrochen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source> ({step} of {total})</source>
            <translation> ({step} von {total})</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>, {time} left</source>
            <translation>, noch {time}</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>Connecting to {host}</source>
            <translation>Verbindung mit {host} wird aufgebaut</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>Engine stopped</source>
            <translation>Rechenprozess steht</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>No model loaded</source>
            <translation>Kein Modell geladen</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>Not connected to {host}</source>
            <translation>Nicht mit {host} verbunden</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>Ready</source>
            <translation>Bereit</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>Ready: {pair}</source>
            <translation>Bereit: {pair}</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>Starting engine</source>
            <translation>Rechenprozess startet</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>experts of {count} of {total} layers from {place}</source>
            <translation>Experten von {count} der {total} Schichten aus {place}</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>{count} of {total} layers from {place}</source>
            <translation>{count} von {total} Schichten aus {place}</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>{models} on {device}</source>
            <translation>{models} auf {device}</translation>
        </message>
        <message>
            <location filename="../../app/engine/state.py" />
            <source>{model} reads no pictures.</source>
            <translation>{model} liest keine Bilder.</translation>
        </message>
        <message>
            <location filename="../../app/engine/unheard_stop.py" />
            <source>It may be in a long step, and stop at its end. A restart ends it now: the text so far stays, and the models are loaded again.</source>
            <translation>Er kann in einem langen Schritt sein und an dessen Ende anhalten. Ein Neustart beendet ihn sofort: Der bisherige Text bleibt, und die Modelle werden neu geladen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/unheard_stop.py" />
            <source>Restart engine</source>
            <translation>Neu starten</translation>
        </message>
        <message>
            <location filename="../../app/engine/unheard_stop.py" />
            <source>The engine has not reacted to Stop for {seconds} seconds.</source>
            <translation>Der Rechenprozess hat seit {seconds} Sekunden nicht auf das Anhalten reagiert.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>A tree did not promise to pay, or there was nothing to guess from.</source>
            <translation>Kein Baum versprach sich zu lohnen, oder es gab nichts, woraus sich etwas vermuten ließ.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Before the first token the models read the conversation, as far as they have not read it before.</source>
            <translation>Vor dem ersten Token lesen die Modelle die Unterhaltung, soweit sie sie noch nicht gelesen haben.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Behind an accepted token one of the guesses was right at least every second time.</source>
            <translation>Hinter einem angenommenen Token traf mindestens jedes zweite Mal eine der Vermutungen zu.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Behind an accepted token one of the guesses was right at least three times in four.</source>
            <translation>Hinter einem angenommenen Token traf mindestens drei von vier Malen eine der Vermutungen zu.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Compute-bound: for {compute} of the writing time the target computed</source>
            <translation>Rechengebunden: {compute} der Schreibzeit rechnete das Zielmodell</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Easy text: {rate:.1f} tokens per pass</source>
            <translation>Leichter Text: {rate:.1f} Token je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Hard text: {rate:.1f} tokens per pass</source>
            <translation>Schwerer Text: {rate:.1f} Token je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Hardly any guesses: {nodes:.1f} a pass, so {rate:.1f} tokens per pass</source>
            <translation>Kaum Vermutungen: {nodes:.1f} je Durchlauf, also {rate:.1f} Token je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Its passes are what takes the time, not drafting and not waiting for weights.</source>
            <translation>Die Zeit geht in seine Durchläufe, nicht in das Entwerfen und nicht in das Warten auf Gewichte.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Layers that are not where the target computes come anew for every pass. Larger trees cost little here.</source>
            <translation>Schichten, die nicht dort liegen, wo das Zielmodell rechnet, kommen für jeden Durchlauf neu. Größere Bäume kosten hier wenig.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Link-bound: for {link} of the writing time the target waited for its weights</source>
            <translation>Übertragungsgebunden: {link} der Schreibzeit wartete das Zielmodell auf seine Gewichte</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Memory ran out: {short} of the passes had smaller trees for that, or none; {rate:.1f} tokens per pass</source>
            <translation>Der Speicher reichte nicht: {short} der Durchläufe hatten darum kleinere Bäume oder keine; {rate:.1f} Token je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Much to read: {reading} of the time went into reading the question and what stands before it</source>
            <translation>Viel zu lesen: {reading} der Zeit gingen in das Lesen der Frage und dessen, was davor steht</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>No speculation: every token took a pass of its own, {time} each</source>
            <translation>Keine Spekulation: Jedes Token brauchte einen eigenen Durchlauf von {time}</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Nothing was guessed: every token took a pass of its own, {time} each</source>
            <translation>Nichts vermutet: Jedes Token brauchte einen eigenen Durchlauf von {time}</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>On average fewer than one guess in a pass was right: the draft does not foresee what comes.</source>
            <translation>Im Mittel traf weniger als eine Vermutung je Durchlauf zu: Das Entwurfsmodell sieht nicht voraus, was kommt.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>On average there was less than one guess in a pass: a tree did not promise to pay, or there was nothing to guess from.</source>
            <translation>Im Mittel gab es weniger als eine Vermutung je Durchlauf: Kein Baum versprach sich zu lohnen, oder es gab nichts, woraus sich etwas vermuten ließ.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>One token per pass would have been as fast. A smaller tree or a smaller draft may be faster; the budget is in Generation settings.</source>
            <translation>Ein Token je Durchlauf wäre ebenso schnell gewesen. Ein kleinerer Baum oder ein kleineres Entwurfsmodell kann schneller sein; das Budget steht in den Generierungseinstellungen.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Ordinary text: {rate:.1f} tokens per pass</source>
            <translation>Gewöhnlicher Text: {rate:.1f} Token je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Overhead: accepting, caches and text took {other} of the writing time</source>
            <translation>Nebenarbeit: Annehmen, Zwischenspeicher und Text nahmen {other} der Schreibzeit</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Slow to begin: {reading} of the time passed before the first token</source>
            <translation>Langsam im Anlaufen: {reading} der Zeit vergingen vor dem ersten Token</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>The whole target model ran once for every token.</source>
            <translation>Das ganze Zielmodell lief einmal für jedes Token.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>There was little to read. The first answer after loading prepares what all passes need, and where weights come from RAM or disk, a pass brings all of them however short the question is.</source>
            <translation>Es gab wenig zu lesen. Die erste Antwort nach dem Laden bereitet vor, was alle Durchläufe brauchen, und wo Gewichte aus dem RAM oder von der Platte kommen, bringt ein Durchlauf alle, so kurz die Frage auch ist.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Together with drafting it took more than the guesses won: one token per pass would have been as fast. Very small models do that.</source>
            <translation>Zusammen mit dem Entwerfen nahm sie mehr, als die Vermutungen einbrachten: Ein Token je Durchlauf wäre ebenso schnell gewesen. Das ist bei sehr kleinen Modellen so.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Tree too dear: drafting took {draft} of the writing time for {rate:.1f} tokens per pass</source>
            <translation>Baum zu teuer: Das Entwerfen nahm {draft} der Schreibzeit für {rate:.1f} Token je Durchlauf</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>Trees grow again as soon as there is memory for them. A smaller tree or a shorter context takes less, or load the model with less memory for its layers.</source>
            <translation>Bäume wachsen wieder, sobald Speicher für sie da ist. Ein kleinerer Baum oder ein kürzerer Kontext braucht weniger; oder laden Sie das Modell mit weniger Speicher für seine Schichten.</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>{words}; computing took {share} of the writing time</source>
            <translation>{words}; Rechnen nahm {share} der Schreibzeit</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>{words}; drafting took {share} of the writing time</source>
            <translation>{words}; Entwerfen nahm {share} der Schreibzeit</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>{words}; overhead took {share} of the writing time</source>
            <translation>{words}; Nebenarbeit nahm {share} der Schreibzeit</translation>
        </message>
        <message>
            <location filename="../../app/engine/why.py" />
            <source>{words}; waiting for weights took {share} of the writing time</source>
            <translation>{words}; Warten auf Gewichte nahm {share} der Schreibzeit</translation>
        </message>
        <message>
            <location filename="../../app/hub/client.py" />
            <source>Coppice is set to stay offline, in Preferences or by HF_HUB_OFFLINE.</source>
            <translation>Coppice soll ohne Netz bleiben, nach den Einstellungen oder durch HF_HUB_OFFLINE.</translation>
        </message>
        <message>
            <location filename="../../app/hub/client.py" />
            <source>Models on this computer can be used; change it to reach the hub.</source>
            <translation>Modelle auf diesem Rechner gehen; ändern Sie das, um den Hub zu erreichen.</translation>
        </message>
        <message>
            <location filename="../../app/hub/client.py" />
            <source>it points to another host for its next page</source>
            <translation>er verweist für die nächste Seite an einen anderen Rechner</translation>
        </message>
        <message>
            <location filename="../../app/hub/client.py" />
            <source>its {file} is larger than {size} MB</source>
            <translation>die Datei {file} ist größer als {size} MB</translation>
        </message>
        <message>
            <location filename="../../app/hub/client.py" />
            <source>one of its files is shorter than such a file can be</source>
            <translation>eine der Dateien ist kürzer, als eine solche Datei sein kann</translation>
        </message>
        <message>
            <location filename="../../app/hub/client.py" />
            <source>the hub sent another part of {name} than was asked for</source>
            <translation>der Hub schickte einen anderen Teil von {name}, als verlangt war</translation>
        </message>
        <message>
            <location filename="../../app/hub/client.py" />
            <source>the hub's answer cannot be read: {reason}</source>
            <translation>die Antwort des Hubs kann nicht gelesen werden: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/hub/client.py" />
            <source>the hub's answer is not the listing of a model</source>
            <translation>die Antwort des Hubs ist nicht die Auflistung eines Modells</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>Choose another model.</source>
            <translation>Wählen Sie ein anderes Modell.</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>The facts in {folder} cannot be read back.</source>
            <translation>Die Angaben in {folder} können nicht wieder gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>it has no complete variant {variant}</source>
            <translation>es hat keine vollständige Variante {variant}</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>it has no weights in the safetensors format</source>
            <translation>es hat keine Gewichte im safetensors-Format</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>it has no {file}</source>
            <translation>es hat keine Datei {file}</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>its index of weight files is damaged</source>
            <translation>sein Verzeichnis der Gewichtsdateien ist beschädigt</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>its {file} cannot be read: {reason}</source>
            <translation>die Datei {file} kann nicht gelesen werden: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>the connection broke</source>
            <translation>die Verbindung ist abgebrochen</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>the tables of its weight files are too large</source>
            <translation>die Verzeichnisse der Gewichtsdateien sind zu groß</translation>
        </message>
        <message>
            <location filename="../../app/hub/facts.py" />
            <source>{file} does not begin as a safetensors file does</source>
            <translation>{file} beginnt nicht wie eine safetensors-Datei</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>'{name}' cannot be used: {reason}.</source>
            <translation>„{name}“ kann nicht benutzt werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>A file of {name} is no longer there.</source>
            <translation>Eine Datei von {name} ist nicht mehr da.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Check the branch or commit.</source>
            <translation>Prüfen Sie den Zweig oder Commit.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Check the name; if it is private, log in first.</source>
            <translation>Prüfen Sie den Namen; ist es nicht öffentlich, melden Sie sich erst an.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Enter a hub token, or set HF_TOKEN.</source>
            <translation>Geben Sie ein Token des Hubs ein, oder setzen Sie HF_TOKEN.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Give them in its address: http://name:password@host:port in HTTPS_PROXY.</source>
            <translation>Geben Sie beide in seiner Adresse an: http://name:password@host:port in HTTPS_PROXY.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Log in again, or enter another.</source>
            <translation>Melden Sie sich neu an, oder geben Sie ein anderes ein.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Models on this computer can be used.</source>
            <translation>Modelle auf diesem Rechner gehen weiter.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Open {page} and accept it, then try again.</source>
            <translation>Öffnen Sie {page} und nehmen Sie sie an, dann versuchen Sie es noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>See {page}.</source>
            <translation>Siehe {page}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>The authors of {name} have refused you access.</source>
            <translation>Die Verfasser von {name} haben Ihnen den Zugang verweigert.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>The hub does not accept the token.</source>
            <translation>Der Hub nimmt das Token nicht an.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>The hub does not hand out {name}: {reason}.</source>
            <translation>Der Hub gibt {name} nicht heraus: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>The hub has no model {name} that you can see.</source>
            <translation>Der Hub hat kein Modell {name}, das Sie sehen dürfen.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>The model hub cannot be reached: {reason}.</source>
            <translation>Der Modell-Hub ist nicht erreichbar: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>The model hub is busy: {reason}.</source>
            <translation>Der Modell-Hub ist überlastet: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>The proxy asks for a name and a password.</source>
            <translation>Der Proxy verlangt Namen und Passwort.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Try again in a moment.</source>
            <translation>Versuchen Sie es gleich noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Try again when they have answered.</source>
            <translation>Versuchen Sie es wieder, wenn sie geantwortet haben.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Try again.</source>
            <translation>Versuchen Sie es noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>You have not accepted the licence of {name}.</source>
            <translation>Sie haben die Lizenz von {name} nicht angenommen.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>Your request for {name} still awaits a review by its authors.</source>
            <translation>Ihre Anfrage nach {name} ist von den Verfassern noch nicht geprüft.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>it answered with {status}</source>
            <translation>er antwortete mit {status}</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>the hub</source>
            <translation>der Hub</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>the hub's storage</source>
            <translation>der Speicher des Hubs</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>{name} has no such revision.</source>
            <translation>{name} hat keine solche Revision.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>{name} is only for those who have accepted its licence, and you are not logged in.</source>
            <translation>{name} ist nur für jene, die seine Lizenz angenommen haben, und Sie sind nicht angemeldet.</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>{server} answered with an error ({status})</source>
            <translation>{server} antwortete mit einem Fehler ({status})</translation>
        </message>
        <message>
            <location filename="../../app/hub/failures.py" />
            <source>{server} is overloaded (429)</source>
            <translation>{server} ist überlastet (429)</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>Check the hub's address (HF_ENDPOINT).</source>
            <translation>Prüfen Sie die Adresse des Hubs (HF_ENDPOINT).</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>Choose a model in the transformers format.</source>
            <translation>Wählen Sie ein Modell im transformers-Format.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>Choose a version of the model in the safetensors format, or in GGUF files.</source>
            <translation>Wählen Sie eine Fassung des Modells im Format safetensors oder in GGUF-Dateien.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>Do not use this model, or tell its authors.</source>
            <translation>Benutzen Sie dieses Modell nicht, oder sagen Sie es seinen Verfassern.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>It has {variants}.</source>
            <translation>Es hat {variants}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>Name one, as in {name}:{variant}.</source>
            <translation>Nennen Sie eine, wie in {name}:{variant}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>it has more than {limit} files</source>
            <translation>es hat mehr als {limit} Dateien</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>its index names files outside its folder, or of another format</source>
            <translation>sein Verzeichnis nennt Dateien außerhalb des Ordners oder in anderem Format</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>its listing has a file without a name</source>
            <translation>die Auflistung nennt eine Datei ohne Namen</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>its listing is not one of a model</source>
            <translation>die Auflistung ist nicht die eines Modells</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>its weight file {name} is missing</source>
            <translation>seine Gewichtsdatei {name} fehlt</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>that is no name of a model on the hub</source>
            <translation>das ist kein Name eines Modells auf dem Hub</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>the hub does not say what files it has</source>
            <translation>der Hub sagt nicht, welche Dateien es hat</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>the hub does not say what it is</source>
            <translation>der Hub sagt nicht, was es ist</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>the hub names no size or checksum of {file}</source>
            <translation>der Hub nennt keine Größe oder Prüfsumme von {file}</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>{file} of {name} claims to have {size} MB; such a file has at most {most} MB.</source>
            <translation>{file} von {name} hat angeblich {size} MB; eine solche Datei hat höchstens {most} MB.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>{name} cannot be downloaded: {reason}.</source>
            <translation>{name} kann nicht heruntergeladen werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>{name} has a file that would be written outside its folder, {file}.</source>
            <translation>{name} hat eine Datei, die außerhalb des Ordners geschrieben würde, {file}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>{name} has a file whose name not every system can keep, {file}.</source>
            <translation>{name} hat eine Datei, deren Namen nicht jedes System aufnehmen kann, {file}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>{name} has no complete variant {variant}.</source>
            <translation>{name} hat keine vollständige Variante {variant}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>{name} has no config.json.</source>
            <translation>{name} hat keine config.json.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>{name} holds GGUF files, of which a variant is to be chosen.</source>
            <translation>{name} enthält GGUF-Dateien, von denen eine Variante zu wählen ist.</translation>
        </message>
        <message>
            <location filename="../../app/hub/files.py" />
            <source>{name} holds no weights that can be opened: neither a model.safetensors nor an index of several.</source>
            <translation>{name} enthält keine Gewichte, die sich öffnen lassen: weder model.safetensors noch ein Verzeichnis mehrerer Dateien.</translation>
        </message>
        <message>
            <location filename="../../app/hub/search.py" />
            <source>its answer is no list of models</source>
            <translation>seine Antwort ist keine Liste von Modellen</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>Copy it again from the hub's settings.</source>
            <translation>Kopieren Sie es noch einmal aus den Einstellungen des Hubs.</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>Set the variable HF_TOKEN, or log in with 'hf auth login'; Coppice uses both.</source>
            <translation>Setzen Sie die Variable HF_TOKEN, oder melden Sie sich mit „hf auth login“ an; Coppice benutzt beides.</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>The access token was not sent to {host}: the connection is not encrypted.</source>
            <translation>Das Zugriffstoken wurde nicht an {host} gesendet: Die Verbindung ist nicht verschlüsselt.</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>This is no access token.</source>
            <translation>Das ist kein Zugangstoken.</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>This system has no keyring that would keep the token.</source>
            <translation>Dieses System hat keinen Schlüsselbund, der das Token verwahren könnte.</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>Use an address of the hub that begins with https://.</source>
            <translation>Verwenden Sie eine Hub-Adresse, die mit https:// beginnt.</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>the hub's command line tool</source>
            <translation>dem Kommandozeilenprogramm des Hubs</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>the system's keyring</source>
            <translation>dem Schlüsselbund des Systems</translation>
        </message>
        <message>
            <location filename="../../app/hub/tokens.py" />
            <source>the variable HF_TOKEN</source>
            <translation>der Variablen HF_TOKEN</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>Check HF_ENDPOINT, HTTPS_PROXY and HTTP_PROXY.</source>
            <translation>Prüfen Sie HF_ENDPOINT, HTTPS_PROXY und HTTP_PROXY.</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>Do not use it.</source>
            <translation>Benutzen Sie es nicht.</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>The address of the hub or of the proxy cannot be used: {reason}.</source>
            <translation>Die Adresse des Hubs oder des Proxys ist nicht zu gebrauchen: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>The hub sends us from one address to the next without an end.</source>
            <translation>Der Hub schickt uns endlos von einer Adresse zur nächsten.</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>The hub sends us to an address that is not safe.</source>
            <translation>Der Hub schickt uns zu einer Adresse, die nicht sicher ist.</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>it answers too slowly</source>
            <translation>er antwortet zu langsam</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>it does not answer</source>
            <translation>er antwortet nicht</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>no answer</source>
            <translation>keine Antwort</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>the connection has stalled</source>
            <translation>die Verbindung steht still</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>the connection was lost</source>
            <translation>die Verbindung ging verloren</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>the proxy does not let us through ({reason})</source>
            <translation>der Proxy lässt uns nicht durch ({reason})</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>the proxy refuses</source>
            <translation>der Proxy weist ab</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>there is no connection</source>
            <translation>es gibt keine Verbindung</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>{name} cannot be downloaded: its listing has no end.</source>
            <translation>{name} kann nicht heruntergeladen werden: Die Auflistung hat kein Ende.</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>{server} cannot be reached ({reason})</source>
            <translation>{server} ist nicht erreichbar ({reason})</translation>
        </message>
        <message>
            <location filename="../../app/hub/transport.py" />
            <source>{server} sent an address that cannot be used</source>
            <translation>{server} schickte eine Adresse, die nicht zu gebrauchen ist</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/i18n/number_text.py" />
            <source>%n bytes</source>
            <translation>
                <numerusform>%n Byte</numerusform>
                <numerusform>%n Byte</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/i18n/number_text.py" />
            <source>{percent:.0f}%</source>
            <translation>{percent:.0f} %</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>&amp;Close</source>
            <translation>&amp;Schließen</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>&amp;Install</source>
            <translation>&amp;Installieren</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>&amp;Pause</source>
            <translation>An&amp;halten</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>&amp;Resume</source>
            <translation>&amp;Fortsetzen</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>&amp;Try again</source>
            <translation>&amp;Noch einmal versuchen</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>C&amp;ancel installation</source>
            <translation>Installation &amp;abbrechen</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>Choose &amp;another…</source>
            <translation>&amp;Anderen wählen…</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>Engine</source>
            <translation>Rechenkern</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>Install the engine</source>
            <translation>Den Rechenkern installieren</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>Installing the engine</source>
            <translation>Der Rechenkern wird installiert</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/dialog.py" />
            <source>Welcome to Coppice</source>
            <translation>Willkommen bei Coppice</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>&amp;Browse…</source>
            <translation>&amp;Durchsuchen…</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>&amp;Choose a model for this computer…</source>
            <translation>Ein Modell für diesen Rechner &amp;wählen…</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>&amp;Try the embedded model now</source>
            <translation>Das mitgelieferte Modell &amp;jetzt ausprobieren</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Cancelled.</source>
            <translation>Abgebrochen.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Checking what is there…</source>
            <translation>Es wird geprüft, was schon da ist …</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Coppice proposes models that this computer can run, also ones bigger than its GPU.</source>
            <translation>Coppice schlägt Modelle vor, die auf diesem Rechner laufen, auch solche, die größer sind als seine Grafikkarte.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Downloading the engine…</source>
            <translation>Der Rechenkern wird heruntergeladen …</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Folder of wheels</source>
            <translation>Ordner mit Wheels</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>For computers without a network: the folder holds the files that the lock names.</source>
            <translation>Für Rechner ohne Netz: Der Ordner enthält die Dateien, die vorgegeben sind.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>How much of the engine is installed</source>
            <translation>Wie viel vom Rechenkern installiert ist</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Install from a folder of &amp;wheels, without the network</source>
            <translation>Aus einem Ordner mit &amp;Wheels installieren, ohne Netz</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Looking at this computer…</source>
            <translation>Dieser Rechner wird angesehen …</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Models run in an engine of their own, which is not part of this program because it is large and differs from computer to computer. It is installed once, for you alone. Chats can be read meanwhile.</source>
            <translation>Modelle laufen in einem eigenen Rechenkern. Er ist kein Teil dieses Programms, weil er groß ist und von Rechner zu Rechner verschieden. Er wird einmal installiert, nur für Sie. Unterhaltungen lassen sich währenddessen lesen.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Nothing is being installed.</source>
            <translation>Es wird nichts installiert.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Paused. What has arrived is kept.</source>
            <translation>Angehalten. Was angekommen ist, bleibt.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Preferences say that the network is not to be used.</source>
            <translation>Die Einstellungen sagen, dass das Netz nicht benutzt werden soll.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Stopping…</source>
            <translation>Wird angehalten …</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>The engine could not be installed.</source>
            <translation>Der Rechenkern ließ sich nicht installieren.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>The engine is ready.</source>
            <translation>Der Rechenkern ist bereit.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>The engine works, but does not find the graphics card: the processor computes. Check the card's driver, then repair the engine in Preferences.</source>
            <translation>Der Rechenkern arbeitet, findet aber die Grafikkarte nicht: Es rechnet der Prozessor. Prüfen Sie den Treiber der Karte und reparieren Sie dann den Rechenkern in den Einstellungen.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>This Coppice brings no engine for this system.</source>
            <translation>Dieses Coppice bringt keinen Rechenkern für dieses System mit.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>This window may be closed: the installation goes on behind it.</source>
            <translation>Dieses Fenster darf geschlossen werden: Die Installation geht im Hintergrund weiter.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Tiny, already here, often wrong: it shows within seconds how everything works.</source>
            <translation>Winzig, schon da, oft im Irrtum: Es zeigt in Sekunden, wie alles geht.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Trying the engine out…</source>
            <translation>Der Rechenkern wird ausprobiert …</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>Unpacking the engine…</source>
            <translation>Der Rechenkern wird ausgepackt …</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>{build} (recommended)</source>
            <translation>{build} (empfohlen)</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>{disk} on the disk, about {time}, nothing is downloaded</source>
            <translation>{disk} auf der Platte, etwa {time}, nichts wird heruntergeladen</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>{done} of {total}</source>
            <translation>{done} von {total}</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>{done} of {total}, {speed}/s, {left} left</source>
            <translation>{done} von {total}, {speed}/s, noch {left}</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>{done} of {total}. Waiting: {reason}.</source>
            <translation>{done} von {total}. Es wird gewartet: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/installation/assistant/pages.py" />
            <source>{size} to download, {disk} on the disk, about {time} at 50 Mbit/s</source>
            <translation>{size} herunterzuladen, {disk} auf der Platte, etwa {time} bei 50 Mbit/s</translation>
        </message>
        <message>
            <location filename="../../app/installation/link.py" />
            <source>The engine could not be removed: {reason}</source>
            <translation>Der Rechenkern ließ sich nicht entfernen: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>AMD (ROCm)</source>
            <translation>AMD (ROCm)</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>Found: a Mac with an Apple processor.</source>
            <translation>Gefunden: ein Mac mit einem Prozessor von Apple.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>Found: an AMD card ({target}).</source>
            <translation>Gefunden: eine Karte von AMD ({target}).</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>Found: {card}.</source>
            <translation>Gefunden: {card}.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>NVIDIA (CUDA)</source>
            <translation>NVIDIA (CUDA)</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>No AMD card that ROCm knows was found.</source>
            <translation>Keine Karte von AMD, die ROCm kennt, wurde gefunden.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>No NVIDIA card was found.</source>
            <translation>Keine Karte von NVIDIA wurde gefunden.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>No graphics card was found that models can compute on. The processor can do it, more slowly.</source>
            <translation>Keine Grafikkarte wurde gefunden, auf der Modelle rechnen können. Der Prozessor kann es, langsamer.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>Processor only</source>
            <translation>Nur der Prozessor</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>PyTorch for ROCm cannot compute on this AMD card ({target}): it lacks the kernels for it.</source>
            <translation>PyTorch für ROCm kann auf dieser Karte von AMD ({target}) nicht rechnen: Ihm fehlen die Kernel dafür.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>The {card} has no NVIDIA driver. Install driver {needed} or newer, then choose NVIDIA here.</source>
            <translation>Die {card} hat keinen Treiber von NVIDIA. Installieren Sie Treiber {needed} oder neuer und wählen Sie dann hier NVIDIA.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>The {card} is too old for CUDA 13: it has compute capability {has}, and {needed} is needed.</source>
            <translation>Die {card} ist zu alt für CUDA 13: Sie hat Compute Capability {has}, nötig ist {needed}.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>The {card} needs the NVIDIA driver {needed} or newer, and driver {has} is installed. Install a newer driver, start the computer again, then choose NVIDIA here.</source>
            <translation>Die {card} braucht den NVIDIA-Treiber {needed} oder neuer, installiert ist Treiber {has}. Installieren Sie einen neueren, starten Sie den Rechner neu und wählen Sie dann hier NVIDIA.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>This Coppice brings no engine for AMD cards on this system; the processor is used.</source>
            <translation>Dieses Coppice bringt für dieses System keinen Rechenkern für Karten von AMD mit; es rechnet der Prozessor.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>This is not a Mac with an Apple processor.</source>
            <translation>Dies ist kein Mac mit einem Prozessor von Apple.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/builds.py" />
            <source>What suits this computer could not be found out because of an error in this program.</source>
            <translation>Was zu diesem Rechner passt, konnte wegen eines Fehlers in diesem Programm nicht ermittelt werden.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/installation.py" />
            <source>Check the folder and its permissions, then try again; --data-dir names another.</source>
            <translation>Prüfen Sie den Ordner und seine Rechte, dann versuchen Sie es noch einmal; --data-dir nennt einen anderen.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/installation.py" />
            <source>The engine's Python could not be made ({reason}).</source>
            <translation>Das Python des Rechenkerns ließ sich nicht anlegen ({reason}).</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/installation.py" />
            <source>The engine's packages could not be unpacked: {reason}.</source>
            <translation>Die Pakete des Rechenkerns ließen sich nicht auspacken: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/installation.py" />
            <source>The installation has ended because of an error in this program.</source>
            <translation>Die Installation endete durch einen Fehler in diesem Programm.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/installation.py" />
            <source>Try again, or install Coppice again.</source>
            <translation>Versuchen Sie es noch einmal, oder installieren Sie Coppice neu.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/installation.py" />
            <source>Try again; the log tells more.</source>
            <translation>Versuchen Sie es noch einmal; das Protokoll sagt mehr.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/lock.py" />
            <source>Choose another build of the engine.</source>
            <translation>Wählen Sie eine andere Fassung des Rechenkerns.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/lock.py" />
            <source>Install Coppice again.</source>
            <translation>Installieren Sie Coppice neu.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/lock.py" />
            <source>The lock {name} cannot be read ({reason}).</source>
            <translation>Die Vorgabe {name} kann nicht gelesen werden ({reason}).</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/lock.py" />
            <source>This Coppice carries no lock {name}.</source>
            <translation>Dieses Coppice bringt keine Vorgabe {name} mit.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/manager.py" />
            <source>Chats can be read, and models downloaded.</source>
            <translation>Gespräche lassen sich lesen und Modelle herunterladen.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/manager.py" />
            <source>The engine is not installed yet.</source>
            <translation>Der Rechenkern ist noch nicht installiert.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/place.py" />
            <source>Another Coppice is installing the engine just now.</source>
            <translation>Ein anderes Coppice installiert gerade den Rechenkern.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/place.py" />
            <source>Wait until it is done, or close it.</source>
            <translation>Warten Sie, bis es fertig ist, oder schließen Sie es.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/progress.py" />
            <source>{names} and {count} more</source>
            <translation>{names} und {count} weitere</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>Install it again, or another build.</source>
            <translation>Installieren Sie ihn noch einmal oder eine andere Fassung.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>Install it again.</source>
            <translation>Installieren Sie ihn noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>Nobody says which package index to ask.</source>
            <translation>Niemand sagt, welches Paketverzeichnis zu fragen ist.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>Set {name}, or check uv.</source>
            <translation>Setzen Sie {name}, oder prüfen Sie uv.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>Set {name}, or use a wheel folder.</source>
            <translation>Setzen Sie {name}, oder nehmen Sie einen Ordner mit Wheels.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>The new engine answered nothing.</source>
            <translation>Der neue Rechenkern hat nichts geantwortet.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>The new engine did not answer in time.</source>
            <translation>Der neue Rechenkern hat nicht rechtzeitig geantwortet.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>The new engine does not tell its version.</source>
            <translation>Der neue Rechenkern nennt seine Version nicht.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>The new engine does not work on this computer: {reason}.</source>
            <translation>Der neue Rechenkern arbeitet auf diesem Rechner nicht: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>Try again when less is going on.</source>
            <translation>Versuchen Sie es wieder, wenn weniger los ist.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>exit code {code}</source>
            <translation>Code {code}</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/tools.py" />
            <source>uv does not say which package index to ask.</source>
            <translation>uv sagt nicht, welches Paketverzeichnis zu fragen ist.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Check the index and the proxy, or use a folder of wheels.</source>
            <translation>Prüfen Sie das Verzeichnis und den Proxy, oder nehmen Sie einen Ordner mit Wheels.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Choose the folder that holds the wheels.</source>
            <translation>Wählen Sie den Ordner, der die Wheels enthält.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Copy it anew, or install from the network.</source>
            <translation>Kopieren Sie sie neu, oder installieren Sie aus dem Netz.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Install from the network, where the index names the checksum, or choose another build of the engine.</source>
            <translation>Installieren Sie aus dem Netz, wo der Index die Prüfsumme nennt, oder wählen Sie eine andere Fassung des Rechenkerns.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Put them there, or choose another folder, or install from the network.</source>
            <translation>Legen Sie sie dorthin, oder wählen Sie einen anderen Ordner, oder installieren Sie aus dem Netz.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>The package index does not hand out {file} ({status}).</source>
            <translation>Das Paketverzeichnis gibt {file} nicht heraus ({status}).</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>The package index does not have {file}.</source>
            <translation>Das Paketverzeichnis hat {file} nicht.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>The package index does not tell the size of {file}.</source>
            <translation>Das Paketverzeichnis nennt die Größe von {file} nicht.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>The package index has another {file} than this Coppice was tested with: its checksum differs.</source>
            <translation>Das Paketverzeichnis hat ein anderes {file} als das, womit dieses Coppice geprüft wurde: Die Prüfsumme ist anders.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>The package index names no checksum of {file}.</source>
            <translation>Das Paketverzeichnis nennt keine Prüfsumme von {file}.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>There is no folder {folder}.</source>
            <translation>Es gibt keinen Ordner {folder}.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>This Coppice knows no checksum of {names}, so files from a folder cannot be checked.</source>
            <translation>Dieses Coppice kennt keine Prüfsumme von {names}; Dateien aus einem Ordner lassen sich deshalb nicht prüfen.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Try again later, or use another network or a folder of wheels.</source>
            <translation>Versuchen Sie es später, oder nehmen Sie ein anderes Netz oder einen Ordner mit Wheels.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Update Coppice, or use a folder of wheels.</source>
            <translation>Aktualisieren Sie Coppice, oder nehmen Sie einen Ordner mit Wheels.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Use a folder of wheels, choose another build of the engine, or update Coppice.</source>
            <translation>Nehmen Sie einen Ordner mit Wheels, wählen Sie eine andere Fassung des Rechenkerns, oder aktualisieren Sie Coppice.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>Use a wheel folder.</source>
            <translation>Nehmen Sie einen Ordner mit Wheels.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>the engine</source>
            <translation>der Rechenkern</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>the package index</source>
            <translation>das Paketverzeichnis</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>the package index's answer is not a list of files</source>
            <translation>die Antwort des Paketverzeichnisses ist keine Liste von Dateien</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>{file} arrived damaged twice: its checksum is not the one that was meant.</source>
            <translation>{file} kam zweimal beschädigt an: Die Prüfsumme ist nicht die gemeinte.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>{file} in {folder} is not the file that was meant: its checksum differs.</source>
            <translation>{file} in {folder} ist nicht die gemeinte Datei: Die Prüfsumme ist anders.</translation>
        </message>
        <message>
            <location filename="../../app/installation/runtime/wheels.py" />
            <source>{folder} lacks {missing} of the {count} wheels: {names}.</source>
            <translation>In {folder} fehlen {missing} der {count} Wheels: {names}.</translation>
        </message>
        <message>
            <location filename="../../app/library/controller.py" />
            <source>Loading the models</source>
            <translation>Die Modelle werden geladen</translation>
        </message>
        <message>
            <location filename="../../app/library/download_link.py" />
            <source>, stalled</source>
            <translation>, stockt</translation>
        </message>
        <message>
            <location filename="../../app/library/download_link.py" />
            <source>1 download</source>
            <translation>1 Download</translation>
        </message>
        <message>
            <location filename="../../app/library/download_link.py" />
            <source>Downloads</source>
            <translation>Downloads</translation>
        </message>
        <message>
            <location filename="../../app/library/download_link.py" />
            <source>Downloads: {words}</source>
            <translation>Downloads: {words}</translation>
        </message>
        <message>
            <location filename="../../app/library/download_link.py" />
            <source>Show the downloads</source>
            <translation>Downloads zeigen</translation>
        </message>
        <message>
            <location filename="../../app/library/download_link.py" />
            <source>{count} downloads</source>
            <translation>{count} Downloads</translation>
        </message>
        <message>
            <location filename="../../app/library/download_link.py" />
            <source>{downloads} failed</source>
            <translation>{downloads} fehlgeschlagen</translation>
        </message>
        <message>
            <location filename="../../app/library/download_link.py" />
            <source>{downloads} paused</source>
            <translation>{downloads} angehalten</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>Cannot be used: {reason}</source>
            <translation>Nicht verwendbar: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>Does not fit, because {reason}</source>
            <translation>Passt nicht: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>Runs on the CPU, about {rate}</source>
            <translation>Läuft auf dem Prozessor, etwa {rate}</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>Runs on the GPU, about {rate}</source>
            <translation>Läuft auf der Grafikkarte, etwa {rate}</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>Streams from RAM, about {rate}</source>
            <translation>Strömt aus dem Arbeitsspeicher, etwa {rate}</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>Streams from SSD, about {rate}</source>
            <translation>Strömt von der SSD, etwa {rate}</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>The draft {draft} cannot be used: {reason}</source>
            <translation>Das Entwurfsmodell {draft} ist nicht verwendbar: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>{rate:.0f} tokens/s</source>
            <translation>{rate:.0f} Token/s</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>{rate:.2f} tokens/s</source>
            <translation>{rate:.2f} Token/s</translation>
        </message>
        <message>
            <location filename="../../app/library/estimates.py" />
            <source>{rate} with a draft</source>
            <translation>{rate} mit Entwurfsmodell</translation>
        </message>
        <message>
            <location filename="../../app/library/feature.py" />
            <source>Downloads…</source>
            <translation>Downloads…</translation>
        </message>
        <message>
            <location filename="../../app/library/feature.py" />
            <source>Load</source>
            <translation>Laden</translation>
        </message>
        <message>
            <location filename="../../app/library/feature.py" />
            <source>Not finished the last time: the download of {models}.</source>
            <translation>Beim letzten Mal nicht fertig geworden: der Download von {models}.</translation>
        </message>
        <message>
            <location filename="../../app/library/feature.py" />
            <source>Resume</source>
            <translation>Fortsetzen</translation>
        </message>
        <message>
            <location filename="../../app/library/feature.py" />
            <source>The download of {model} has stopped: {reason}</source>
            <translation>Der Download von {model} hat aufgehört: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/library/feature.py" />
            <source>{model} has been downloaded.</source>
            <translation>{model} ist heruntergeladen.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/completeness.py" />
            <source>{name} cannot be read.</source>
            <translation>{name} lässt sich nicht lesen.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/completeness.py" />
            <source>{name} is cut off: only {size} of at least {needed} are there.</source>
            <translation>{name} ist abgeschnitten: Nur {size} von mindestens {needed} sind da.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/completeness.py" />
            <source>{name} is damaged or cut off.</source>
            <translation>{name} ist beschädigt oder abgeschnitten.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/gguf_models.py" />
            <source>It cannot be read.</source>
            <translation>Es kann nicht gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/gguf_models.py" />
            <source>It is no GGUF file of a known version.</source>
            <translation>Es ist keine GGUF-Datei einer bekannten Version.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/gguf_models.py" />
            <source>{missing} of {count} weight files are missing.</source>
            <translation>{missing} von {count} Gewichtsdateien fehlen.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/local_models.py" />
            <source>'{name}' cannot be read: {reason}.</source>
            <translation>„{name}“ kann nicht gelesen werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/local_models.py" />
            <source>Copy its files again.</source>
            <translation>Kopieren Sie seine Dateien noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/local_models.py" />
            <source>{name} is not from the hub's cache.</source>
            <translation>{name} ist nicht aus dem Zwischenspeicher des Hubs.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>Copy its files into the folder again, or download them again.</source>
            <translation>Kopieren Sie seine Dateien noch einmal in den Ordner, oder laden Sie sie noch einmal herunter.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>Download it again in {app}.</source>
            <translation>Laden Sie es in {app} noch einmal herunter.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>Its config.json cannot be read.</source>
            <translation>Seine config.json lässt sich nicht lesen.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>Its config.json names no model_type.</source>
            <translation>Seine config.json nennt keinen model_type.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>Its index of weight files cannot be read.</source>
            <translation>Sein Verzeichnis der Gewichtsdateien lässt sich nicht lesen.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>Its weights are missing.</source>
            <translation>Seine Gewichte fehlen.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>Look for it in safetensors or GGUF.</source>
            <translation>Suchen Sie es in safetensors oder GGUF.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>Only safetensors are opened, not {name}.</source>
            <translation>Nur safetensors werden geöffnet, nicht {name}.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/models.py" />
            <source>“Verify” finds what is damaged and downloads it again; or delete the model, and download it anew.</source>
            <translation>„Prüfen“ findet, was beschädigt ist, und lädt es noch einmal herunter; oder löschen Sie das Modell, und laden Sie es neu herunter.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/other_apps.py" />
            <source>Choose the model without the adapter.</source>
            <translation>Wählen Sie das Modell ohne den Adapter.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/other_apps.py" />
            <source>It consists of a model and an adapter, which cannot be put together here.</source>
            <translation>Es besteht aus einem Modell und einem Adapter, die hier nicht zusammengesetzt werden können.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/removal.py" />
            <source>If it is loaded, load another model first.</source>
            <translation>Wenn es geladen ist, laden Sie erst ein anderes Modell.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/removal.py" />
            <source>It cannot be put back: {reason}.</source>
            <translation>Es lässt sich nicht zurückholen: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/removal.py" />
            <source>Nothing was deleted.</source>
            <translation>Nichts wurde gelöscht.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/removal.py" />
            <source>What was deleted is in {folder}.</source>
            <translation>Was gelöscht wurde, liegt in {folder}.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/removal.py" />
            <source>{folder} cannot be deleted: {reason}.</source>
            <translation>{folder} lässt sich nicht löschen: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/removal.py" />
            <source>{folder} is not a folder that can be deleted.</source>
            <translation>{folder} ist kein Ordner, der gelöscht werden kann.</translation>
        </message>
        <message>
            <location filename="../../app/library/local/removal.py" />
            <source>{folder} is there again.</source>
            <translation>{folder} ist wieder da.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/draft_finder.py" />
            <source>Embedded demo draft</source>
            <translation>Entwurfsmodell der Vorführung</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/draft_finder.py" />
            <source>Its vocabulary cannot be read: {reason}</source>
            <translation>Sein Vokabular lässt sich nicht lesen: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>A head is one small layer that guesses the next tokens from what the model has computed itself. The answer stays exactly the model's.</source>
            <translation>Ein Kopf ist eine kleine Schicht, die die nächsten Token aus dem errät, was das Modell selbst berechnet hat. Die Antwort bleibt genau die des Modells.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It has about {percent} % of the target's tokens, and is {ratio:.0f} times smaller</source>
            <translation>Es hat etwa {percent} % der Token des Zielmodells und ist {ratio:.0f}-mal kleiner</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It has another vocabulary, with about {percent} % of the target's tokens.</source>
            <translation>Es hat ein anderes Vokabular mit etwa {percent} % der Token des Zielmodells.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It has another vocabulary: only about {percent} % of the target's tokens are in it.</source>
            <translation>Es hat ein anderes Vokabular: Nur etwa {percent} % der Token des Zielmodells sind darin.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It has the same vocabulary, and is {ratio:.0f} times smaller</source>
            <translation>Es hat dasselbe Vokabular und ist {ratio:.0f}-mal kleiner</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It has the same vocabulary.</source>
            <translation>Es hat dasselbe Vokabular.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It is a head that was made for a model of another size.</source>
            <translation>Das ist ein Kopf, der für ein Modell anderer Größe gemacht wurde.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It is a head that was made for a model of this size.</source>
            <translation>Das ist ein Kopf, der für ein Modell dieser Größe gemacht wurde.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It is a head, and the model's size is not known yet.</source>
            <translation>Das ist ein Kopf, und die Größe des Modells ist noch nicht bekannt.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It is hardly smaller</source>
            <translation>Es ist kaum kleiner</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It is not smaller than the target.</source>
            <translation>Es ist nicht kleiner als das Zielmodell.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>It is the target itself.</source>
            <translation>Es ist das Zielmodell selbst.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>Its guesses are translated token by token, and it can only guess what both have. The answer stays exactly the target's.</source>
            <translation>Was es rät, wird Token für Token übersetzt, und es kann nur raten, was beide haben. Die Antwort bleibt genau die des Zielmodells.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>Its own heads</source>
            <translation>Seine eigenen Köpfe</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>Its vocabulary has not been compared yet.</source>
            <translation>Sein Vokabular ist noch nicht verglichen.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>They came with the model: there is nothing to download.</source>
            <translation>Sie kamen mit dem Modell: Es muss nichts heruntergeladen werden.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>{size}: guessing would take about as long as it saves.</source>
            <translation>{size}: Das Raten dauerte etwa so lange, wie es spart.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/drafts.py" />
            <source>{size}: quick, but its guesses may often be wrong.</source>
            <translation>{size}: schnell, aber es irrt sich vielleicht oft.</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/vocabulary.py" />
            <source>it has no vocabulary</source>
            <translation>es hat kein Vokabular</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/vocabulary.py" />
            <source>it has too many tokens</source>
            <translation>er hat zu viele Tokens</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/vocabulary.py" />
            <source>its tokenizer cannot be read: {reason}</source>
            <translation>sein Tokenizer lässt sich nicht lesen: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/vocabulary.py" />
            <source>its vocabulary is damaged</source>
            <translation>sein Vokabular ist beschädigt</translation>
        </message>
        <message>
            <location filename="../../app/library/pairing/vocabulary.py" />
            <source>{name} is larger than {size} MB</source>
            <translation>{name} ist größer als {size} MB</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/library/picker/details.py" />
            <source>%n layers</source>
            <translation>
                <numerusform>%n Schicht</numerusform>
                <numerusform>%n Schichten</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Access refused</source>
            <translation>Zugang verweigert</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Access token of the model hub</source>
            <translation>Zugangstoken des Modell-Hubs</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Access token, hf_…</source>
            <translation>Zugangstoken, hf_…</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Asking the hub for its variants…</source>
            <translation>Der Hub wird nach den Varianten gefragt …</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Cannot be used</source>
            <translation>Nicht verwendbar</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Check again</source>
            <translation>Erneut prüfen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Choose a model to see how it would run here, and which drafts go with it.</source>
            <translation>Wählen Sie ein Modell, um zu sehen, wie es hier laufen würde und welche Entwurfsmodelle dazu passen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Download again</source>
            <translation>Neu herunterladen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Fetches just the files that are not here</source>
            <translation>Lädt nur die Dateien herunter, die hier fehlen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>How many of the target's layers would be in which memory, and all that is taken there: on the device also the draft, the context and the working space. Tokens per pass: how much the answer grows each time that all layers are gone through; the draft's guesses make it more than one.</source>
            <translation>Wie viele Schichten des Zielmodells in welchem Speicher lägen, und alles, was dort belegt wird: auf dem Gerät auch das Entwurfsmodell, der Kontext und der Arbeitsbereich. Token je Durchlauf: um wie viel die Antwort jedes Mal wächst, wenn alle Schichten durchlaufen sind; durch die Vermutungen des Entwurfsmodells ist es mehr als eines.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>It is kept in the system's keyring, and sent to the hub alone.</source>
            <translation>Es liegt im Schlüsselbund des Systems und geht nur an den Hub.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Keep in keyring</source>
            <translation>In den Schlüsselbund</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Licence not accepted</source>
            <translation>Lizenz nicht angenommen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Not found</source>
            <translation>Nicht gefunden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Not logged in</source>
            <translation>Nicht angemeldet</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Offline</source>
            <translation>Offline</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Open licence page</source>
            <translation>Lizenzseite öffnen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Open page</source>
            <translation>Seite öffnen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>RAM for layers on their way: {size}</source>
            <translation>RAM für Schichten unterwegs: {size}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>RAM, ready</source>
            <translation>RAM, rechenbereit</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>The hub is busy</source>
            <translation>Der Hub ist überlastet</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>Variant</source>
            <translation>Variante</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>about {count:.1f} tokens per pass of {time}</source>
            <translation>etwa {count:.1f} Token je Durchlauf von {time}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>context of {count:,} tokens</source>
            <translation>Kontext von {count:,} Token</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>{place}: {layers}, {size}</source>
            <translation>{place}: {layers}, {size}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/details.py" />
            <source>{place}: {size}</source>
            <translation>{place}: {size}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/dialog.py" />
            <source>Discover</source>
            <translation>Entdecken</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/dialog.py" />
            <source>Downloads ({count})</source>
            <translation>Downloads ({count})</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/dialog.py" />
            <source>Engines</source>
            <translation>Engines</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/dialog.py" />
            <source>Models</source>
            <translation>Modelle</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/dialog.py" />
            <source>My models</source>
            <translation>Meine Modelle</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/dialog.py" />
            <source>Pages</source>
            <translation>Seiten</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/dialog.py" />
            <source>{variant}: {words}</source>
            <translation>{variant}: {words}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Everything that was found is hidden by the filters.</source>
            <translation>Die Filter verbergen alles, was gefunden wurde.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Hide models that are known not to fit into this computer, and suggestions larger than its memory</source>
            <translation>Modelle verbergen, von denen bekannt ist, dass sie nicht auf diesen Rechner passen, und Vorschläge, die größer sind als sein Speicher</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Models found</source>
            <translation>Gefundene Modelle</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>No model on the hub has '{words}' in its name and weights that can be opened here.</source>
            <translation>Kein Modell auf dem Hub hat „{words}“ im Namen und Gewichte, die sich hier öffnen lassen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>No model on this computer has '{words}' in its name.</source>
            <translation>Kein Modell auf diesem Rechner hat „{words}“ im Namen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>On this computer</source>
            <translation>Auf diesem Rechner</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Only models that can be shown pictures, as far as the hub tells</source>
            <translation>Nur Modelle, denen Bilder gezeigt werden können, soweit der Hub es sagt</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Only models with so many parameters</source>
            <translation>Nur Modelle mit so vielen Parametern</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Reads pictures</source>
            <translation>Liest Bilder</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Runs here</source>
            <translation>Läuft hier</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Search the hub, or paste an address</source>
            <translation>Hub durchsuchen, oder Adresse einfügen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Search the model hub</source>
            <translation>Modell-Hub durchsuchen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Searching</source>
            <translation>Suche läuft</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Size</source>
            <translation>Größe</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Suggested pairs. Nothing is asked of the hub before you type or choose.</source>
            <translation>Vorgeschlagene Paare. Der Hub wird erst gefragt, wenn Sie tippen oder wählen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/discover_page.py" />
            <source>Try again</source>
            <translation>Erneut versuchen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>Asking the hub</source>
            <translation>Fragt den Hub</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>Cancelled</source>
            <translation>Abgebrochen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>Comparing checksums</source>
            <translation>Vergleicht Prüfsummen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>Downloading</source>
            <translation>Lädt herunter</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>Paused</source>
            <translation>Angehalten</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>Stalled: nothing arrives</source>
            <translation>Stockt: Es kommt nichts an</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>Waiting for its turn</source>
            <translation>Wartet, bis es dran ist</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>Waiting to try again</source>
            <translation>Wartet auf den nächsten Versuch</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>again in {time}</source>
            <translation>wieder in {time}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/download_list.py" />
            <source>{time} left</source>
            <translation>noch {time}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/downloads_page.py" />
            <source>Cancel the download</source>
            <translation>Download abbrechen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/downloads_page.py" />
            <source>Cancel the download of {name}?</source>
            <translation>Download von {name} abbrechen?</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/downloads_page.py" />
            <source>Go on downloading</source>
            <translation>Weiter herunterladen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/downloads_page.py" />
            <source>No downloads. What you get from the hub shows up here, and goes on when this dialog is closed.</source>
            <translation>Keine Downloads. Was Sie vom Hub holen, erscheint hier und läuft weiter, wenn dieses Fenster zu ist.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/downloads_page.py" />
            <source>Of the {size} that have arrived, what belongs to files that are not complete is deleted. “Pause” keeps it.</source>
            <translation>Von den {size}, die angekommen sind, wird gelöscht, was zu unvollständigen Dateien gehört. „Anhalten“ behält es.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/downloads_page.py" />
            <source>Retry</source>
            <translation>Erneut versuchen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/downloads_page.py" />
            <source>Stop it and remove what is partial</source>
            <translation>Abbrechen und Unvollständiges entfernen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/downloads/downloads_page.py" />
            <source>Take off the list</source>
            <translation>Von der Liste nehmen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/draft_list.py" />
            <source>Answers without a draft; what repeats in the text is still guessed ahead.</source>
            <translation>Antwortet allein; was sich im Text wiederholt, wird trotzdem vorausgeraten.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/draft_list.py" />
            <source>Draft model</source>
            <translation>Entwurfsmodell</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/draft_list.py" />
            <source>No draft</source>
            <translation>Kein Entwurfsmodell</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/draft_list.py" />
            <source>recommended</source>
            <translation>empfohlen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/draft_list.py" />
            <source>{size} to download</source>
            <translation>{size} herunterzuladen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Another address, key or model</source>
            <translation>Andere Adresse, anderer Schlüssel oder anderes Modell</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Change…</source>
            <translation>Ändern…</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Choose an engine first.</source>
            <translation>Wählen Sie erst eine Engine.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Connect again</source>
            <translation>Neu verbinden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Connect to an engine…</source>
            <translation>Mit einer Engine verbinden…</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Engines elsewhere stand here once you have connected to them: vLLM, SGLang, llama-server, LM Studio, Ollama, another Coppice, or any other OpenAI-compatible API. Questions and answers go to the engine that you use; nothing is sent to the others.</source>
            <translation>Engines an anderen Orten stehen hier, sobald Sie sich mit ihnen verbunden haben: vLLM, SGLang, llama-server, LM Studio, Ollama, ein anderes Coppice oder jede andere OpenAI-kompatible Schnittstelle. Fragen und Antworten gehen an die Engine, die Sie nutzen; an die anderen wird nichts gesendet.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Give it another name (F2)</source>
            <translation>Einen anderen Namen geben (F2)</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Have this engine answer from now on, in all chats</source>
            <translation>Ab jetzt antwortet diese Engine, in allen Chats</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>In use</source>
            <translation>In Gebrauch</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>It is in use.</source>
            <translation>Sie wird gerade benutzt.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>It is this computer itself.</source>
            <translation>Es ist dieser Rechner selbst.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Name of the engine</source>
            <translation>Name der Engine</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Remove</source>
            <translation>Entfernen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Rename engine</source>
            <translation>Engine umbenennen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Rename…</source>
            <translation>Umbenennen…</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Take it off the list, and its key out of the keyring (Delete)</source>
            <translation>Von der Liste nehmen, und den Schlüssel aus dem Schlüsselbund (Entf)</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>This computer</source>
            <translation>Dieser Computer</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Use</source>
            <translation>Nutzen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>Use an engine on another machine, or another program's on this one</source>
            <translation>Eine Engine auf einem anderen Rechner nutzen, oder die eines anderen Programms auf diesem</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/engines_page.py" />
            <source>{name} was removed; its key is forgotten when this dialog is closed.</source>
            <translation>{name} wurde entfernt; der Schlüssel wird vergessen, wenn dieser Dialog geschlossen wird.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>15 to 40 B</source>
            <translation>15 bis 40 B</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>4 to 15 B</source>
            <translation>4 bis 15 B</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>A tiny pair that shows how everything works, at once and without a download.</source>
            <translation>Ein winziges Paar, das zeigt, wie alles geht, sofort und ohne Download.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Any size</source>
            <translation>Jede Größe</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Download it again to have it read pictures: what says how is not here.</source>
            <translation>Laden Sie es noch einmal herunter, damit es Bilder liest: Was sagt, wie, fehlt hier.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Embedded demo</source>
            <translation>Eingebaute Vorführung</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Engine elsewhere</source>
            <translation>Engine an anderem Ort</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Engine on this computer</source>
            <translation>Engine auf diesem Computer</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Estimating…</source>
            <translation>Wird geschätzt …</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Folder</source>
            <translation>Ordner</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Gated: access was refused</source>
            <translation>Beschränkt: Der Zugang wurde verweigert</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Gated: its licence is to be accepted first</source>
            <translation>Beschränkt: Erst ist die Lizenz anzunehmen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Gated: log in to the hub first</source>
            <translation>Beschränkt: Melden Sie sich erst beim Hub an</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Hub cache</source>
            <translation>Hub-Zwischenspeicher</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>It is a head that drafts for a larger model: choose that one, and this as its draft.</source>
            <translation>Das ist ein Kopf, der für ein größeres Modell vorausrät: Wählen Sie jenes, und diesen als Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>It is not complete; loading its model again completes it.</source>
            <translation>Sie ist nicht vollständig; laden Sie ihr Modell noch einmal, dann wird sie es.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Larger than the memory of this computer: streams from SSD, slowly</source>
            <translation>Größer als der Speicher dieses Rechners: strömt langsam von der SSD</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Larger than what is free on the disk: {size}</source>
            <translation>Größer als das, was auf dem Datenträger frei ist: {size}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>More than 40 B</source>
            <translation>Mehr als 40 B</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Not found on the hub</source>
            <translation>Auf dem Hub nicht gefunden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Not known while offline</source>
            <translation>Offline nicht bekannt</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>On the hub</source>
            <translation>Auf dem Hub</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Prepared copy</source>
            <translation>Vorbereitete Kopie</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Shipped with Coppice</source>
            <translation>Mit Coppice geliefert</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>Up to 4 B parameters</source>
            <translation>Bis 4 B Parameter</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>about {size}</source>
            <translation>etwa {size}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>used today</source>
            <translation>heute verwendet</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>used yesterday</source>
            <translation>gestern verwendet</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>used {day} {month}</source>
            <translation>verwendet {day}. {month}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>used {month} {year}</source>
            <translation>verwendet {month} {year}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>{count} parameters</source>
            <translation>{count} Parameter</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>{day} {month} {year}</source>
            <translation>{day}. {month} {year}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry.py" />
            <source>{layers}, made from {source}</source>
            <translation>{layers}, gemacht aus {source}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Download: {size}</source>
            <translation>Download: {size}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Family: {family}; its tokenizer is compared when a draft is chosen</source>
            <translation>Familie: {family}; ihr Tokenizer wird verglichen, wenn ein Entwurfsmodell gewählt wird</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Format: {format}</source>
            <translation>Format: {format}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Gated</source>
            <translation>Beschränkt</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Gated: its authors ask for a login, and for consent to their terms</source>
            <translation>Beschränkt: Die Autoren verlangen eine Anmeldung und die Zustimmung zu ihren Bedingungen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Last used: {day}</source>
            <translation>Zuletzt benutzt: {day}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Licence: {licence}</source>
            <translation>Lizenz: {licence}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Made for {vram} GB of GPU memory and {ram} GB of RAM</source>
            <translation>Gedacht für {vram} GB Grafikspeicher und {ram} GB Arbeitsspeicher</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>On disk: {size}</source>
            <translation>Auf der Platte: {size}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Parameters: {count}</source>
            <translation>Parameter: {count}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/entry_list.py" />
            <source>Where: {place}</source>
            <translation>Wo: {place}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>A folder that holds models</source>
            <translation>Ein Ordner mit Modellen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Add a folder…</source>
            <translation>Ordner hinzufügen…</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Choose a model first.</source>
            <translation>Wählen Sie erst ein Modell.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Delete its files</source>
            <translation>Seine Dateien löschen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Delete {name}?</source>
            <translation>{name} löschen?</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Delete…</source>
            <translation>Löschen…</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Filter models on this computer</source>
            <translation>Modelle auf diesem Rechner filtern</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Folders</source>
            <translation>Ordner</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Folders in which models are looked for, beside the hub's cache</source>
            <translation>Ordner, in denen nach Modellen gesucht wird, außer im Zwischenspeicher des Hubs</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Get it again from where it came.</source>
            <translation>Holen Sie es noch einmal von dort, woher es kam.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>It belongs to {app}, which shares it with Coppice: delete it there.</source>
            <translation>Es gehört {app} und wird von Coppice nur mitbenutzt: Löschen Sie es dort.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>It comes with Coppice.</source>
            <translation>Es gehört zu Coppice.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>It is being downloaded</source>
            <translation>Es wird gerade heruntergeladen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>It is loaded</source>
            <translation>Es ist geladen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Loaded</source>
            <translation>Geladen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Models on this computer</source>
            <translation>Modelle auf diesem Rechner</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>No model on this computer has that in its name.</source>
            <translation>Kein Modell auf diesem Rechner hat das im Namen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Open folder</source>
            <translation>Ordner öffnen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Read all files again and compare them with the checksums that they came with</source>
            <translation>Alle Dateien neu lesen und mit den mitgelieferten Prüfsummen vergleichen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Show its files</source>
            <translation>Seine Dateien zeigen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Take {folder} off the list</source>
            <translation>{folder} von der Liste nehmen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>That frees {size}. It goes to the trash when this dialog is closed; until then it can be put back.</source>
            <translation>Das gibt {size} frei. Es kommt in den Papierkorb, wenn dieses Fenster geschlossen wird; bis dahin lässt es sich zurückholen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>That frees {size}. It is deleted for good when this dialog is closed; until then it can be put back.</source>
            <translation>Das gibt {size} frei. Es wird endgültig gelöscht, wenn dieses Fenster geschlossen wird; bis dahin lässt es sich zurückholen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Verify</source>
            <translation>Prüfen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>Verifying {name}: {share}, {size} read.</source>
            <translation>{name} wird geprüft: {share}, {size} gelesen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>begins</source>
            <translation>beginnt</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>{count} files have no checksum.</source>
            <translation>{count} Dateien haben keine Prüfsumme.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>{names} and more</source>
            <translation>{names} und weitere</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>{name} has no checksums to compare with: only what came from the hub can be verified.</source>
            <translation>{name} hat keine Prüfsummen zum Vergleichen: Nur was vom Hub kam, lässt sich prüfen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>{name} is as it was downloaded: {size} verified.</source>
            <translation>{name} ist, wie es heruntergeladen wurde: {size} geprüft.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>{name} is being verified.</source>
            <translation>{name} wird gerade geprüft.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>{name} is damaged: {names}.</source>
            <translation>{name} ist beschädigt: {names}.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/local_page.py" />
            <source>{name} was deleted; {size} are free when this dialog is closed.</source>
            <translation>{name} wurde gelöscht; {size} sind frei, wenn dieses Fenster geschlossen ist.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Choose another draft</source>
            <translation>Anderes Entwurfsmodell wählen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Download both{size} and load</source>
            <translation>Beide herunterladen{size} und laden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Download both{size} and load anyway</source>
            <translation>Beide herunterladen{size} und trotzdem laden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Download the draft{size} and load</source>
            <translation>Entwurfsmodell herunterladen{size} und laden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Download the draft{size} and load anyway</source>
            <translation>Entwurfsmodell herunterladen{size} und trotzdem laden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Download{size} and load</source>
            <translation>Herunterladen{size} und laden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Download{size} and load anyway</source>
            <translation>Herunterladen{size} und trotzdem laden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Load anyway</source>
            <translation>Trotzdem laden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Log in…</source>
            <translation>Anmelden…</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Look again</source>
            <translation>Noch einmal suchen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Open the model's page</source>
            <translation>Seite des Modells öffnen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/offer.py" />
            <source>Show download</source>
            <translation>Download zeigen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/page.py" />
            <source>Cancel loading</source>
            <translation>Laden abbrechen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/page.py" />
            <source>Engine state</source>
            <translation>Zustand des Rechenprozesses</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/page.py" />
            <source>Loaded: {pair}</source>
            <translation>Geladen: {pair}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/page.py" />
            <source>Loading progress</source>
            <translation>Ladefortschritt</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/services.py" />
            <source>Choose it to see how its variants would run</source>
            <translation>Auswählen, um zu sehen, wie seine Varianten laufen würden</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source> tokens</source>
            <translation> Token</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>16 bit</source>
            <translation>16 Bit</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>4 bit</source>
            <translation>4 Bit</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>8 bit</source>
            <translation>8 Bit</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>8 bit where needed</source>
            <translation>8 Bit, wo nötig</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Activations</source>
            <translation>Aktivierungen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>As computed</source>
            <translation>Wie berechnet</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Automatic</source>
            <translation>Automatisch</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Context</source>
            <translation>Kontext</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Exact</source>
            <translation>Exakt</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>GPU limit</source>
            <translation>Grenze Grafikspeicher</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>How the target keeps what it has read. In 8 bits a context takes about half the room that 16 bits take; each number is off by up to 1/127 of the largest beside it, so an answer may part from the exact one.</source>
            <translation>Wie das Zielmodell behält, was es gelesen hat. In 8 Bit braucht ein Kontext etwa halb so viel Platz wie in 16; jede Zahl weicht um bis zu 1/127 der größten neben ihr ab, sodass eine Antwort anders als die genaue weitergehen kann.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Keys and values</source>
            <translation>Schlüssel und Werte</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Layers in</source>
            <translation>Schichten in</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>RAM limit</source>
            <translation>Grenze Arbeitsspeicher</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>The largest speculation tree that room is kept for, in drafted tokens.</source>
            <translation>Der größte Spekulationsbaum, für den Platz bleibt, in geratenen Token.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>The longest conversation, question and answer together, in tokens; it takes memory of its own.</source>
            <translation>Das längste Gespräch, Frage und Antwort zusammen, in Token; es braucht eigenen Speicher.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>The most GPU memory to take; automatic is what is free.</source>
            <translation>So viel Grafikspeicher wird höchstens belegt; automatisch ist, was frei ist.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>The most RAM to take; automatic is what is free.</source>
            <translation>So viel Arbeitsspeicher wird höchstens belegt; automatisch ist, was frei ist.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>The type of the target's numbers. Fewer bits take less room and stream faster, a little less exactly.</source>
            <translation>Die Art der Zahlen des Zielmodells. Weniger Bits brauchen weniger Platz und strömen schneller, ein wenig ungenauer.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Tree budget</source>
            <translation>Baumbudget</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Weights</source>
            <translation>Gewichte</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>What the target's quantised weights are multiplied with. Rounded to 8 bits, as llama.cpp does, it is faster on processors without units for bfloat16; the text can differ where two tokens are nearly equally likely.</source>
            <translation>Womit die quantisierten Gewichte des Zielmodells multipliziert werden. Auf 8 Bit gerundet, wie llama.cpp es tut, geht es auf Prozessoren ohne Einheiten für bfloat16 schneller; der Text kann abweichen, wo zwei Token fast gleich wahrscheinlich sind.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/terms_form.py" />
            <source>Where the target's layers are kept. Automatic takes the fastest place that has room.</source>
            <translation>Wo die Schichten des Zielmodells liegen. Automatisch nimmt den schnellsten Ort mit Platz.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/library/picker/variant_list.py" />
            <source>In %n files</source>
            <translation>
                <numerusform>In %n Datei</numerusform>
                <numerusform>In %n Dateien</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/library/picker/variant_list.py" />
            <source>Recommended: four bits lose little and stream fast.</source>
            <translation>Empfohlen: Vier Bit verlieren wenig und strömen schnell.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/variant_list.py" />
            <source>here</source>
            <translation>hier</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/variant_list.py" />
            <source>{name} (recommended)</source>
            <translation>{name} (empfohlen)</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/library/picker/ways_box.py" />
            <source>%n nodes</source>
            <translation>
                <numerusform>%n Knoten</numerusform>
                <numerusform>%n Knoten</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/library/picker/ways_box.py" />
            <source>Every way to run it</source>
            <translation>Alle Wege, es laufen zu lassen</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/ways_box.py" />
            <source>Of its layers, {device} stay where they are computed, {ram} come from RAM and {ssd} from SSD. A pass and its drafting take {time} and give {count:.1f} tokens.</source>
            <translation>Von seinen Schichten bleiben {device}, wo sie gerechnet werden, {ram} kommen aus dem RAM und {ssd} von der SSD. Ein Durchlauf mit dem Entwerfen dauert {time} und gibt {count:.1f} Token.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/ways_box.py" />
            <source>Rates are assumed: this machine was not measured with such weights yet.</source>
            <translation>Die Raten sind angenommen: Dieser Rechner wurde mit solchen Gewichten noch nicht gemessen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/ways_box.py" />
            <source>Rates were measured here on {date}.</source>
            <translation>Die Raten wurden hier am {date} gemessen.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/ways_box.py" />
            <source>Seconds of a pass are computed from what was measured of this machine: memory, links, disk and the processor or GPU. Where nothing was measured, figures are assumed; loading a model measures them.</source>
            <translation>Die Sekunden eines Durchgangs werden aus dem errechnet, was an diesem Rechner gemessen wurde: Speicher, Verbindungen, Platte und Prozessor oder GPU. Wo nichts gemessen wurde, sind die Zahlen angenommen; das Laden eines Modells misst sie.</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/ways_box.py" />
            <source>assumed: {bound}</source>
            <translation>angenommen: {bound}</translation>
        </message>
        <message>
            <location filename="../../app/library/picker/ways_box.py" />
            <source>bound by {bound}</source>
            <translation>Grenze: {bound}</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Address</source>
            <translation>Adresse</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>An OpenAI-compatible API</source>
            <translation>Eine OpenAI-kompatible Schnittstelle</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>As it was</source>
            <translation>Wie bisher</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Asking {host}…</source>
            <translation>{host} wird gefragt…</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Asks the address what it is, and which models it has</source>
            <translation>Fragt die Adresse, was sie ist und welche Modelle sie hat</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Cancel the test</source>
            <translation>Test abbrechen</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Change the connection</source>
            <translation>Verbindung ändern</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Connect to an engine</source>
            <translation>Mit einer Engine verbinden</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Give another key.</source>
            <translation>Geben Sie einen anderen Schlüssel an.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Give it a name first.</source>
            <translation>Geben Sie ihr erst einen Namen.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>It is kept in the system's keyring, and sent to this address alone.</source>
            <translation>Er liegt im Schlüsselbund des Systems und wird nur an diese Adresse gesendet.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Key</source>
            <translation>Schlüssel</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Model</source>
            <translation>Modell</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Name</source>
            <translation>Name</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>No key</source>
            <translation>Kein Schlüssel</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Of vLLM, SGLang, llama-server, LM Studio, Ollama, another Coppice, or any OpenAI-compatible API</source>
            <translation>Von vLLM, SGLang, llama-server, LM Studio, Ollama, einem anderen Coppice oder jeder OpenAI-kompatiblen Schnittstelle</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Progress of the test</source>
            <translation>Fortschritt des Tests</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Result of the test</source>
            <translation>Ergebnis des Tests</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Save and use</source>
            <translation>Speichern und nutzen</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Test the connection</source>
            <translation>Verbindung testen</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Test the connection first: its models have to be known</source>
            <translation>Prüfen Sie zuerst die Verbindung: Die Modelle müssen bekannt sein</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>What the engine is called in your list</source>
            <translation>Wie die Engine in Ihrer Liste heißt</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>Write the address of the engine first.</source>
            <translation>Geben Sie erst die Adresse der Engine ein.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>{engine} answers, with {count} models.</source>
            <translation>{engine} antwortet, mit {count} Modellen.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>{engine} answers.</source>
            <translation>{engine} antwortet.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/connect_dialog.py" />
            <source>{model} ({tokens} tokens of context)</source>
            <translation>{model} ({tokens} Tokens Kontext)</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/engines.py" />
            <source>It has: {names}. Connect to it anew to choose one.</source>
            <translation>Es gibt dort: {names}. Verbinden Sie sich neu, um eines zu wählen.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/engines.py" />
            <source>It is used until Coppice is closed, and is not written to a file. Then it has to be typed again.</source>
            <translation>Es gilt, bis Coppice geschlossen wird, und wird in keine Datei geschrieben. Danach ist es neu einzugeben.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/engines.py" />
            <source>This system has no keyring that would keep the key of the engine.</source>
            <translation>Dieses System hat keinen Schlüsselbund, der den Schlüssel der Engine aufbewahren könnte.</translation>
        </message>
        <message>
            <location filename="../../app/library/remote/engines.py" />
            <source>{host} has no model {model} any more.</source>
            <translation>{host} hat kein Modell {model} mehr.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/dialog.py" />
            <source>No option has these words.</source>
            <translation>Keine Option enthält diese Wörter.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/dialog.py" />
            <source>Nothing was changed.</source>
            <translation>Es wurde nichts geändert.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/dialog.py" />
            <source>Preferences</source>
            <translation>Einstellungen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/dialog.py" />
            <source>Search options</source>
            <translation>Optionen suchen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/dialog.py" />
            <source>Use what is set, and stay here</source>
            <translation>Übernehmen, was eingestellt ist, und hier bleiben</translation>
        </message>
        <message>
            <location filename="../../app/preferences/editors.py" />
            <source>Add…</source>
            <translation>Hinzufügen…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/editors.py" />
            <source>Browse…</source>
            <translation>Durchsuchen…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/editors.py" />
            <source>Choose a folder</source>
            <translation>Ordner wählen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/editors.py" />
            <source>Choose a folder of the list first.</source>
            <translation>Wählen Sie erst einen Ordner der Liste.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/editors.py" />
            <source>Take the chosen folder off the list; its files stay</source>
            <translation>Den gewählten Ordner von der Liste nehmen; seine Dateien bleiben</translation>
        </message>
        <message>
            <location filename="../../app/preferences/editors.py" />
            <source>{option}: add a folder</source>
            <translation>{option}: Ordner hinzufügen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/editors.py" />
            <source>{option}: choose a folder</source>
            <translation>{option}: Ordner wählen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/editors.py" />
            <source>{option}: remove the chosen folder</source>
            <translation>{option}: den gewählten Ordner entfernen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Engine folder</source>
            <translation>Ordner des Rechenkerns</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Engine: install, change, update, repair, remove</source>
            <translation>Rechenkern: installieren, ändern, aktualisieren, reparieren, entfernen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Install the same engine anew; the present one is used until that is done.</source>
            <translation>Denselben Rechenkern neu installieren; der jetzige dient, bis das fertig ist.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Install…</source>
            <translation>Installieren…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>It does not find the graphics card: the processor computes.</source>
            <translation>Er findet die Grafikkarte nicht: Es rechnet der Prozessor.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>It is many small files; that takes a moment.</source>
            <translation>Es sind viele kleine Dateien; das dauert einen Moment.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Models cannot answer without it. Chats and models stay.</source>
            <translation>Ohne ihn können Modelle nicht antworten. Unterhaltungen und Modelle bleiben.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Models need one to answer.</source>
            <translation>Modelle brauchen einen, um zu antworten.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>No engine is installed.</source>
            <translation>Kein Rechenkern ist installiert.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>PyTorch {version}.</source>
            <translation>PyTorch {version}.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Remove the engine</source>
            <translation>Den Rechenkern entfernen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Remove the engine?</source>
            <translation>Den Rechenkern entfernen?</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Remove…</source>
            <translation>Entfernen…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Repair</source>
            <translation>Reparieren</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>The engine is being removed…</source>
            <translation>Der Rechenkern wird entfernt …</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>This version of Coppice was made for a newer one.</source>
            <translation>Diese Fassung von Coppice ist für einen neueren gemacht.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>Update</source>
            <translation>Aktualisieren</translation>
        </message>
        <message>
            <location filename="../../app/preferences/engine_page.py" />
            <source>What was installed. It can be removed and installed again at any time.</source>
            <translation>Was installiert wurde. Es lässt sich jederzeit entfernen und neu installieren.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>Delete now…</source>
            <translation>Jetzt löschen…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>Delete what is kept</source>
            <translation>Aufbewahrtes löschen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>Delete what is kept of all chats</source>
            <translation>Aufbewahrtes aller Chats löschen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>Delete what is kept of all chats?</source>
            <translation>Aufbewahrtes aller Chats löschen?</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>Looking at what is kept…</source>
            <translation>Das Aufbewahrte wird gezählt…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>Memory</source>
            <translation>Speicher</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>Nothing is kept of any chat now.</source>
            <translation>Zurzeit ist von keinem Chat etwas aufbewahrt.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>The chats stay. The next answer in each of them begins later: the model reads the chat again first.</source>
            <translation>Die Chats bleiben. Die nächste Antwort in jedem von ihnen beginnt später: Das Modell liest den Chat vorher noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/memory_page.py" />
            <source>What is kept of chats takes {size} now.</source>
            <translation>Das Aufbewahrte der Chats belegt zurzeit {size}.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/page.py" />
            <source>Give a number from {smallest} to {largest}.</source>
            <translation>Geben Sie eine Zahl von {smallest} bis {largest} an.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/page.py" />
            <source>Restore defaults</source>
            <translation>Anfangswerte herstellen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/page.py" />
            <source>Restore the defaults of this page: {page}</source>
            <translation>Anfangswerte dieser Seite herstellen: {page}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/page.py" />
            <source>This cannot be used.</source>
            <translation>Das lässt sich nicht verwenden.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/page.py" />
            <source>This cannot be used. Give the folder's full path.</source>
            <translation>Das lässt sich nicht verwenden. Geben Sie den vollen Pfad des Ordners an.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/page.py" />
            <source>This cannot be used. Give {form}.</source>
            <translation>Das lässt sich nicht verwenden. Geben Sie {form} an.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/page.py" />
            <source>This is a file. Give a folder.</source>
            <translation>Das ist eine Datei. Geben Sie einen Ordner an.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Advanced</source>
            <translation>Erweitert</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>All conversations are in one file here.</source>
            <translation>Alle Gespräche stehen hier in einer Datei.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Appearance</source>
            <translation>Aussehen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Chats</source>
            <translation>Chats</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Downloaded models, shared with other programs. HF_HOME moves it.</source>
            <translation>Heruntergeladene Modelle, gemeinsam mit anderen Programmen. HF_HOME verlegt ihn.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Every option on every page goes back to its default. Chats, models and the token stay.</source>
            <translation>Jede Option auf jeder Seite geht auf ihren Anfangswert zurück. Chats, Modelle und das Token bleiben.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>For models that ask for it. It is kept in the system's keyring and sent to the hub alone.</source>
            <translation>Für Modelle, die danach fragen. Es liegt im Schlüsselbund des Systems und geht nur an den Hub.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Keep the access token in the system's keyring</source>
            <translation>Das Zugangstoken im Schlüsselbund des Systems aufbewahren</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Local server</source>
            <translation>Lokaler Server</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Log folder</source>
            <translation>Protokollordner</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Looking for a token…</source>
            <translation>Ein Token wird gesucht…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Models and folders</source>
            <translation>Modelle und Ordner</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Network</source>
            <translation>Netz</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Open folder: {place}</source>
            <translation>Ordner öffnen: {place}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Open the local server's window</source>
            <translation>Fenster des lokalen Servers öffnen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Remove the access token from the keyring</source>
            <translation>Das Zugangstoken aus dem Schlüsselbund entfernen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Reset all options</source>
            <translation>Alle Optionen zurücksetzen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Reset all options?</source>
            <translation>Alle Optionen zurücksetzen?</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Reset all options…</source>
            <translation>Alle Optionen zurücksetzen…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Speculation</source>
            <translation>Spekulation</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>The keyring has none.</source>
            <translation>Im Schlüsselbund ist keines.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>The server is switched on and off in a window of its own, which has its key and its log too.</source>
            <translation>Der Server wird in einem eigenen Fenster ein- und ausgeschaltet; dort sind auch sein Schlüssel und sein Protokoll.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>There is none.</source>
            <translation>Es gibt keines.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>What the window and the engine had to report.</source>
            <translation>Was Fenster und Rechenprozess zu melden hatten.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>Write or paste a token first.</source>
            <translation>Geben Sie erst ein Token ein.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/pages.py" />
            <source>{token}, from {origin}</source>
            <translation>{token}, aus {origin}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Add one by its command or address, or paste the configuration that its page offers for other programs.</source>
            <translation>Fügen Sie einen mit seinem Befehl oder seiner Adresse hinzu, oder fügen Sie die Konfiguration ein, die seine Seite für andere Programme anbietet.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Add servers as other programs have them in a file such as mcp.json</source>
            <translation>Server hinzufügen, wie andere Programme sie in einer Datei wie mcp.json haben</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Add server…</source>
            <translation>Server hinzufügen…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Ask again</source>
            <translation>Wieder fragen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Ask again before {tool} is called</source>
            <translation>Wieder fragen, bevor {tool} aufgerufen wird</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Called without a question</source>
            <translation>Ohne Frage aufgerufen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>For these tools you have said that answers may always call them.</source>
            <translation>Von diesen Werkzeugen haben Sie gesagt, dass Antworten sie immer aufrufen dürfen.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>MCP servers offer tools that answers may call: to read files, to search, to ask other services. A server is a program that Coppice starts with your rights, or an address that it asks. Nothing is started or asked before you switch it on.</source>
            <translation>MCP-Server bieten Werkzeuge an, die Antworten aufrufen dürfen: um Dateien zu lesen, zu suchen oder andere Dienste zu fragen. Ein Server ist ein Programm, das Coppice mit Ihren Rechten startet, oder eine Adresse, die es fragt. Nichts wird gestartet oder gefragt, bevor Sie es einschalten.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>MCP servers: programs and addresses whose tools answers may call</source>
            <translation>MCP-Server: Programme und Adressen, deren Werkzeuge Antworten aufrufen dürfen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Opens {address} in the browser</source>
            <translation>Öffnet {address} im Browser</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Paste configuration…</source>
            <translation>Konfiguration einfügen…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Start</source>
            <translation>Starten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Start a program</source>
            <translation>Ein Programm starten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Start {name}?</source>
            <translation>{name} starten?</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>Tools</source>
            <translation>Werkzeuge</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>What MCP is…</source>
            <translation>Was MCP ist…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/page.py" />
            <source>{name} was removed.</source>
            <translation>{name} wurde entfernt.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Add</source>
            <translation>Hinzufügen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Add and switch on</source>
            <translation>Hinzufügen und einschalten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Add these servers, and connect to them</source>
            <translation>Diese Server hinzufügen und mit ihnen verbinden</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Add these servers, without starting anything</source>
            <translation>Diese Server hinzufügen, ohne etwas zu starten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Configuration</source>
            <translation>Konfiguration</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>None of these can be switched on yet.</source>
            <translation>Keiner davon kann schon eingeschaltet werden.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Not understood, and left out: {names}</source>
            <translation>Nicht verstanden und ausgelassen: {names}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Paste a configuration first.</source>
            <translation>Fügen Sie zuerst eine Konfiguration ein.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Paste configuration</source>
            <translation>Konfiguration einfügen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>Something in it is yet to be filled in. It stays off: edit it first.</source>
            <translation>Darin ist noch etwas auszufüllen. Er bleibt aus: Bearbeiten Sie ihn zuerst.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/paste_dialog.py" />
            <source>The JSON in which Claude Desktop, LM Studio, Jan, Cursor or VS Code have their MCP servers.</source>
            <translation>Das JSON, in dem Claude Desktop, LM Studio, Jan, Cursor oder VS Code ihre MCP-Server haben.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>%n more tools are not offered: they are too large, or too many.</source>
            <translation>
                <numerusform>%n weiteres Werkzeug wird nicht angeboten: Es ist zu groß, oder es sind zu viele.</numerusform>
                <numerusform>%n weitere Werkzeuge werden nicht angeboten: Sie sind zu groß oder zu viele.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Edit server {name}</source>
            <translation>Server {name} bearbeiten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Edit…</source>
            <translation>Bearbeiten…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Offer this tool to models</source>
            <translation>Dieses Werkzeug Modellen anbieten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Remove server {name}</source>
            <translation>Server {name} entfernen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Server {name}</source>
            <translation>Server {name}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Switch this server on or off: while it is on, answers may call its tools</source>
            <translation>Diesen Server ein- oder ausschalten: Solange er an ist, dürfen Antworten seine Werkzeuge aufrufen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Tool {name}</source>
            <translation>Werkzeug {name}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Tools of {name}</source>
            <translation>Werkzeuge von {name}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>Try again to connect to {name}</source>
            <translation>Noch einmal mit {name} verbinden</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_box.py" />
            <source>What the server wrote last</source>
            <translation>Was der Server zuletzt geschrieben hat</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>A program on this computer</source>
            <translation>Ein Programm auf diesem Computer</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Add a server</source>
            <translation>Server hinzufügen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Allow http:// to another computer: others may read along</source>
            <translation>http:// zu einem anderen Computer erlauben: andere können mitlesen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>An address</source>
            <translation>Eine Adresse</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Another server has this name.</source>
            <translation>Ein anderer Server hat diesen Namen.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Arguments, one a line</source>
            <translation>Argumente, eines je Zeile</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Command</source>
            <translation>Befehl</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Edit the server</source>
            <translation>Server bearbeiten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Give an address such as https://tools.example/mcp.</source>
            <translation>Geben Sie eine Adresse wie https://tools.example/mcp an.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Give it a shorter name, without a slash.</source>
            <translation>Geben Sie ihm einen kürzeren Namen ohne Schrägstrich.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Give the command that starts it.</source>
            <translation>Geben Sie den Befehl an, der ihn startet.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Give the full path of the folder.</source>
            <translation>Geben Sie den vollen Pfad des Ordners an.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Headers, one a line</source>
            <translation>Kopfzeilen, eine je Zeile</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Keep it, and connect to it</source>
            <translation>Behalten und verbinden</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Keep it, without starting anything</source>
            <translation>Behalten, ohne etwas zu starten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Kind</source>
            <translation>Art</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Save and switch on</source>
            <translation>Speichern und einschalten</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Use https://, or allow http://.</source>
            <translation>Verwenden Sie https://, oder erlauben Sie http://.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Variables, one a line</source>
            <translation>Variablen, eine je Zeile</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Where it starts; most need none</source>
            <translation>Wo er startet; die meisten brauchen keinen</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Write headers as Name: value.</source>
            <translation>Schreiben Sie Kopfzeilen als Name: Wert.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>Write variables as NAME=value.</source>
            <translation>Schreiben Sie Variablen als NAME=Wert.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/server_dialog.py" />
            <source>files</source>
            <translation>dateien</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>Asks: {address}</source>
            <translation>Fragt: {address}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>Connecting…</source>
            <translation>Verbindet…</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>Failed, is tried again</source>
            <translation>Gescheitert, wird wieder versucht</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>In the folder: {folder}</source>
            <translation>Im Ordner: {folder}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>It is too long to be shown whole here, and stays off. Read it under “Edit…”, and switch it on there.</source>
            <translation>Das ist zu lang, um hier ganz gezeigt zu werden, und bleibt aus. Lesen Sie es unter „Bearbeiten…“, und schalten Sie es dort ein.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>It runs as a program with your rights: it can read and change what you can, and use the network. Start only what you trust.</source>
            <translation>Es läuft als Programm mit Ihren Rechten: Es kann lesen und ändern, was Sie können, und das Netz benutzen. Starten Sie nur Programme, denen Sie vertrauen.</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>Off</source>
            <translation>Aus</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/preferences/tools/words.py" />
            <source>Ready, %n tools</source>
            <translation>
                <numerusform>Bereit, %n Werkzeug</numerusform>
                <numerusform>Bereit, %n Werkzeuge</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>Starts: {command}</source>
            <translation>Startet: {command}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>With headers: {names}</source>
            <translation>Mit Kopfzeilen: {names}</translation>
        </message>
        <message>
            <location filename="../../app/preferences/tools/words.py" />
            <source>With variables: {variables}</source>
            <translation>Mit Variablen: {variables}</translation>
        </message>
        <message>
            <location filename="../../app/server/controller.py" />
            <source>The key of the local server was not found in the keyring.</source>
            <translation>Der Schlüssel des lokalen Servers wurde im Schlüsselbund nicht gefunden.</translation>
        </message>
        <message>
            <location filename="../../app/server/controller.py" />
            <source>Unlock the keyring and try again, generate another key, or remove it.</source>
            <translation>Entsperren Sie den Schlüsselbund und versuchen Sie es noch einmal, erzeugen Sie einen anderen Schlüssel, oder entfernen Sie ihn.</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Address of the server</source>
            <translation>Adresse des Servers</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Copy the address</source>
            <translation>Adresse kopieren</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Examples</source>
            <translation>Beispiele</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Generate a key</source>
            <translation>Schlüssel erzeugen</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>It was started with other settings than those of now.</source>
            <translation>Er wurde mit anderen Einstellungen gestartet als den jetzigen.</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>No model is loaded: until one is, clients are told so (status 503).</source>
            <translation>Es ist kein Modell geladen: Bis dahin wird das jedem gesagt, der fragt (Status 503).</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Requests</source>
            <translation>Anfragen</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Restart server</source>
            <translation>Server neu starten</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Settings</source>
            <translation>Einstellungen</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Start it anew with the settings of now; answers under way are cut off</source>
            <translation>Startet ihn mit den jetzigen Einstellungen neu; laufende Antworten werden abgebrochen</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Switch off</source>
            <translation>Ausschalten</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Switch on</source>
            <translation>Einschalten</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Switch the server off</source>
            <translation>Server ausschalten</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>Switch the server on</source>
            <translation>Server einschalten</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>This computer has these addresses: {addresses}</source>
            <translation>Dieser Rechner hat diese Adressen: {addresses}</translation>
        </message>
        <message>
            <location filename="../../app/server/dialog.py" />
            <source>What clients of OpenAI call the base URL; all others take it without /v1</source>
            <translation>Was Programme für OpenAI die Basis-URL nennen; alle anderen nehmen sie ohne /v1</translation>
        </message>
        <message>
            <location filename="../../app/server/examples_page.py" />
            <source>Copy the example</source>
            <translation>Beispiel kopieren</translation>
        </message>
        <message>
            <location filename="../../app/server/examples_page.py" />
            <source>Example</source>
            <translation>Beispiel</translation>
        </message>
        <message>
            <location filename="../../app/server/examples_page.py" />
            <source>Kind of example</source>
            <translation>Art des Beispiels</translation>
        </message>
        <message>
            <location filename="../../app/server/examples_page.py" />
            <source>Whatever lets you give an address for OpenAI, Anthropic, Ollama, llama.cpp or LM Studio can ask.</source>
            <translation>Fragen kann alles, worin sich eine Adresse für OpenAI, Anthropic, Ollama, llama.cpp oder LM Studio angeben lässt.</translation>
        </message>
        <message>
            <location filename="../../app/server/feature.py" />
            <source>Local server…</source>
            <translation>Lokaler Server…</translation>
        </message>
        <message>
            <location filename="../../app/server/feature.py" />
            <source>Open the window of the local server</source>
            <translation>Fenster des lokalen Servers öffnen</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Asked for</source>
            <translation>Gefragt nach</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Clear</source>
            <translation>Leeren</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Clear the log</source>
            <translation>Protokoll leeren</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Client</source>
            <translation>Client</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Copy the chosen requests, or all of them, as a table</source>
            <translation>Die ausgewählten Anfragen oder alle als Tabelle kopieren</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Copy the log</source>
            <translation>Protokoll kopieren</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Duration</source>
            <translation>Dauer</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Forget the requests that are over</source>
            <translation>Beendete Anfragen vergessen</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Nobody has asked yet.</source>
            <translation>Noch hat niemand gefragt.</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Nobody has asked yet. Requests appear here while the server is on.</source>
            <translation>Noch hat niemand gefragt. Anfragen erscheinen hier, solange der Server eingeschaltet ist.</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>None is over yet.</source>
            <translation>Noch ist keine vorbei.</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Program</source>
            <translation>Programm</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Requests of clients</source>
            <translation>Anfragen</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Since the request came, waiting included</source>
            <translation>Seit die Anfrage kam, das Warten eingerechnet</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>State</source>
            <translation>Stand</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>The address that it came from</source>
            <translation>Die Adresse, von der sie kam</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>The newest {count} requests. What they ask and get is not kept.</source>
            <translation>Die neuesten {count} Anfragen. Was sie fragen und bekommen, wird nicht aufbewahrt.</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>The path of the address that was asked</source>
            <translation>Der Pfad der Adresse, die gefragt wurde</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Time</source>
            <translation>Zeit</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Tokens that were read → tokens that were written</source>
            <translation>Gelesene Token → geschriebene Token</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Tokens written a second, since the request came</source>
            <translation>Geschriebene Token je Sekunde, seit die Anfrage kam</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>Tokens/s</source>
            <translation>Token/s</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>What has become of it</source>
            <translation>Was daraus geworden ist</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>What the client calls itself</source>
            <translation>Wie sich das Programm nennt</translation>
        </message>
        <message>
            <location filename="../../app/server/log_view.py" />
            <source>When the request came</source>
            <translation>Wann die Anfrage kam</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>Clients must show it, as they show one to OpenAI or Anthropic. It is kept in the system's keyring. Without one, every program on this computer may ask.</source>
            <translation>Wer fragt, muss ihn vorzeigen, wie einen für OpenAI oder Anthropic. Er liegt im Schlüsselbund des Systems. Ohne Schlüssel darf jedes Programm auf diesem Rechner fragen.</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>Copy the key</source>
            <translation>Schlüssel kopieren</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>Generate</source>
            <translation>Erzeugen</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>Generate a new key in place of this one</source>
            <translation>Einen neuen Schlüssel anstelle von diesem erzeugen</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>Hide</source>
            <translation>Verbergen</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>No keyring has kept this key: it holds until Coppice is closed.</source>
            <translation>Kein Schlüsselbund hat diesen Schlüssel behalten: Er gilt, bis Coppice geschlossen wird.</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>Remove the key</source>
            <translation>Schlüssel entfernen</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>Show</source>
            <translation>Zeigen</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>Show the key</source>
            <translation>Schlüssel zeigen</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>There is no key.</source>
            <translation>Es gibt keinen Schlüssel.</translation>
        </message>
        <message>
            <location filename="../../app/server/settings_page.py" />
            <source>This cannot be used. A key has letters, digits and . _ ~ + / = - alone.</source>
            <translation>Das ist nicht möglich. Ein Schlüssel hat nur Buchstaben ohne Umlaute, Ziffern und . _ ~ + / = -.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/server/words.py" />
            <source>, %n waiting</source>
            <translation>
                <numerusform>, %n wartet</numerusform>
                <numerusform>, %n warten</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Answering</source>
            <translation>Antwortet</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Editors, scripts and other computers can ask the models that are loaded here, through the APIs of OpenAI, Anthropic and Ollama.</source>
            <translation>Editoren, Skripte und andere Rechner können die hier geladenen Modelle fragen, über die APIs von OpenAI, Anthropic und Ollama.</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Every program on this computer can ask the models.</source>
            <translation>Jedes Programm auf diesem Rechner kann die Modelle fragen.</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Everyone in the network who has the key can ask the models.</source>
            <translation>Alle im Netzwerk, die den Schlüssel haben, können die Modelle fragen.</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Failed{status}: {reason}</source>
            <translation>Gescheitert{status}: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Looking for the server's key in the keyring…</source>
            <translation>Der Schlüssel des Servers wird im Schlüsselbund gesucht…</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Programs on this computer that have the key can ask the models.</source>
            <translation>Programme auf diesem Rechner, die den Schlüssel haben, können die Modelle fragen.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/server/words.py" />
            <source>Server: %n clients</source>
            <translation>
                <numerusform>Server: %n Programm</numerusform>
                <numerusform>Server: %n Programme</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Server: on</source>
            <translation>Server: an</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>The client left, or was cut off</source>
            <translation>Gegangen oder abgebrochen</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>The server is being switched off…</source>
            <translation>Der Server wird ausgeschaltet…</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>The server is not running</source>
            <translation>Der Server läuft nicht</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>The server is off</source>
            <translation>Der Server ist aus</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>The server is on</source>
            <translation>Der Server ist an</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>The server is starting…</source>
            <translation>Der Server startet…</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>The server waits for the engine</source>
            <translation>Der Server wartet auf den Rechenprozess</translation>
        </message>
        <message>
            <location filename="../../app/server/words.py" />
            <source>Waiting</source>
            <translation>Wartet</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/server/words.py" />
            <source>Waiting, %n before it</source>
            <translation>
                <numerusform>Wartet, %n davor</numerusform>
                <numerusform>Wartet, %n davor</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A ( has no ).</source>
            <translation>Zu einer ( fehlt die ).</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A ) has no (.</source>
            <translation>Zu einer ) fehlt die (.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A JSON schema is an object.</source>
            <translation>Ein JSON-Schema ist ein Objekt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A [ has no ].</source>
            <translation>Zu einer [ fehlt die ].</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A colon is missing here.</source>
            <translation>Hier fehlt ein Doppelpunkt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A comma or a closing bracket is missing here.</source>
            <translation>Hier fehlt ein Komma oder eine schließende Klammer.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A name in double quotes is missing here.</source>
            <translation>Hier fehlt ein Name in doppelten Anführungszeichen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A text ends on the line it began on: write \n for a line break.</source>
            <translation>Ein Text endet in der Zeile, in der er begonnen hat: Schreiben Sie \n für einen Zeilenumbruch.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>A value is missing here: a text in quotes, a number, true, false, null, [ or an object.</source>
            <translation>Hier fehlt ein Wert: ein Text in Anführungszeichen, eine Zahl, true, false, null, [ oder ein Objekt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>At {path}: {words}</source>
            <translation>Bei {path}: {words}</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Begin with root ::= in GBNF, or with start: in Lark.</source>
            <translation>Beginnen Sie mit root ::= in GBNF oder mit start: in Lark.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Begin with {{ and end with }}.</source>
            <translation>Beginnen Sie mit {{ und enden Sie mit }}.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Give at most {most} characters.</source>
            <translation>Höchstens {most} Zeichen angeben.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Give each a name.</source>
            <translation>Geben Sie jedem einen Namen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Give one of {names}.</source>
            <translation>Geben Sie eines an von {names}.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Line {line}, column {column}: this is no JSON.</source>
            <translation>Zeile {line}, Spalte {column}: Das ist kein JSON.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Line {line}, column {column}: {words}</source>
            <translation>Zeile {line}, Spalte {column}: {words}</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Take out the comma before the closing bracket.</source>
            <translation>Nehmen Sie das Komma vor der schließenden Klammer heraus.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The JSON schema is empty.</source>
            <translation>Das JSON-Schema ist leer.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The JSON schema is nested too deeply, or has a number that is too long.</source>
            <translation>Das JSON-Schema ist zu tief geschachtelt oder enthält eine zu lange Zahl.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The grammar has no first rule.</source>
            <translation>Der Grammatik fehlt die erste Regel.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The grammar is empty.</source>
            <translation>Die Grammatik ist leer.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The least number of repeats is above the largest.</source>
            <translation>Die kleinste Zahl der Wiederholungen liegt über der größten.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The range begins behind its end.</source>
            <translation>Der Bereich beginnt hinter seinem Ende.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The regular expression is empty.</source>
            <translation>Der reguläre Ausdruck ist leer.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The schema has ended before this; take out what follows.</source>
            <translation>Das Schema ist vorher zu Ende; nehmen Sie heraus, was folgt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The text has {count} characters.</source>
            <translation>Der Text hat {count} Zeichen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>The text that begins here has no closing quote.</source>
            <translation>Dem Text, der hier beginnt, fehlt das schließende Anführungszeichen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>There is nothing that *, + or ? could repeat.</source>
            <translation>Es gibt nichts, was *, + oder ? wiederholen könnte.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Write \\ for a backslash.</source>
            <translation>Schreiben Sie \\ für einen umgekehrten Schrägstrich.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Write a \ before a character that stands for itself.</source>
            <translation>Schreiben Sie \ vor ein Zeichen, das für sich selbst steht.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Write it in square brackets.</source>
            <translation>Schreiben Sie sie in eckige Klammern.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Write it like ["name", "age"].</source>
            <translation>Schreiben Sie sie wie ["name", "age"].</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Write it like {{"type": "string"}}.</source>
            <translation>Schreiben Sie es wie {{"type": "string"}}.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>Write one, or open a file.</source>
            <translation>Schreiben Sie den Text, oder öffnen Sie eine Datei.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>a schema is an object.</source>
            <translation>Ein Schema ist ein Objekt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>there is no type {name}.</source>
            <translation>Einen Typ {name} gibt es nicht.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>this is a list of names.</source>
            <translation>Das ist eine Liste von Namen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>this is a list, and not empty.</source>
            <translation>Das ist eine Liste, und keine leere.</translation>
        </message>
        <message>
            <location filename="../../app/settings/constraints.py" />
            <source>this is an object of schemas.</source>
            <translation>Das ist ein Objekt aus Schemas.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>0 always takes the likeliest token; higher values dare more.</source>
            <translation>0 nimmt immer das wahrscheinlichste Token; höhere Werte wagen mehr.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>A pattern that the whole answer must match. It has no backreferences.</source>
            <translation>Ein Muster, dem die ganze Antwort entsprechen muss. Rückverweise gibt es darin nicht.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>A preset holds every generation setting, so it comes before the options of this and the other pages.</source>
            <translation>Eine Vorlage enthält alle Antworteinstellungen; sie geht den Optionen dieser und der anderen Seiten vor.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Above 0 makes words that the answer has already less likely; 0 changes nothing.</source>
            <translation>Über 0 werden Wörter, die in der Antwort schon stehen, weniger wahrscheinlich; 0 ändert nichts.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Above 0, a token that would go on with a repetition of earlier text becomes less likely, the more so the longer the repetition is already; single words may come again. 0.8 is usual, 0 is off.</source>
            <translation>Über 0 wird ein Token, das eine Wiederholung früheren Textes fortsetzen würde, unwahrscheinlicher, umso mehr, je länger die Wiederholung schon ist; einzelne Wörter dürfen wiederkommen. Üblich ist 0,8; 0 ist aus.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Above 1 makes words that were there already less likely; 1 changes nothing.</source>
            <translation>Über 1 werden Wörter, die schon vorkamen, weniger wahrscheinlich; 1 ändert nichts.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>All</source>
            <translation>Alle</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Any JSON object</source>
            <translation>Beliebiges JSON-Objekt</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Constraint '{name}'</source>
            <translation>Vorgabe „{name}“</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>DRY: allowed length</source>
            <translation>DRY: erlaubte Länge</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>DRY: begins anew at</source>
            <translation>DRY: neuer Anfang bei</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>DRY: growth</source>
            <translation>DRY: Wachstum</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>DRY: strength</source>
            <translation>DRY: Stärke</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>DRY: tokens looked at</source>
            <translation>DRY: betrachtete Token</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Draft chain</source>
            <translation>Entwurfskette</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Drop the oldest turns</source>
            <translation>Die ältesten Nachrichten weglassen</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Every answer of this chat is held to a form: the model can write nothing else. A model that reasons does so freely before it.</source>
            <translation>Jede Antwort dieses Chats hält eine Form ein: Das Modell kann nichts anderes schreiben. Ein Modell, das vorher nachdenkt, tut dies frei.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Give {first}, {second} or {third}.</source>
            <translation>Geben Sie {first}, {second} oder {third} an.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Grammar (GBNF or Lark)</source>
            <translation>Grammatik (GBNF oder Lark)</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Grammars (*.gbnf *.lark *.txt);;All files (*)</source>
            <translation>Grammatiken (*.gbnf *.lark *.txt);;Alle Dateien (*)</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>How many tokens the draft may guess for one pass of the target. More guesses, more tokens per pass, but a slower pass.</source>
            <translation>Wie viele Token das Entwurfsmodell für einen Durchlauf des Zielmodells raten darf. Mehr Vermutungen geben mehr Token je Durchlauf, aber einen langsameren Durchlauf.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>How much stronger it becomes with every further token that is repeated.</source>
            <translation>Um wie viel stärker es mit jedem weiteren wiederholten Token wird.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>How often the likeliest tokens are left out where several are likely, so that answers take less usual ways. 0.5 is usual, 0 is off. It does nothing at temperature 0.</source>
            <translation>Wie oft die wahrscheinlichsten Token wegfallen, wo mehrere wahrscheinlich sind, damit Antworten ungewöhnlichere Wege nehmen. Üblich ist 0,5; 0 ist aus. Bei Temperatur 0 bewirkt es nichts.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>How the draft model guesses ahead. Automatic speculates whenever a draft is loaded.</source>
            <translation>Wie das Entwurfsmodell vorausrät. Automatisch spekuliert, sobald ein Entwurfsmodell geladen ist.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>JSON schemas (*.json *.schema);;All files (*)</source>
            <translation>JSON-Schemas (*.json *.schema);;Alle Dateien (*)</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Longest answer</source>
            <translation>Längste Antwort</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Method</source>
            <translation>Verfahren</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Min-p</source>
            <translation>Min-p</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>No limit</source>
            <translation>Unbegrenzt</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>No repetition goes across any of these texts, one in each line, so that what comes behind them may be as it was before: names in a dialogue, or the form of a list. \n in it is a line break.</source>
            <translation>Keine Wiederholung reicht über einen dieser Texte hinweg, einer in jeder Zeile, sodass dahinter alles wie zuvor sein darf: Namen in einem Dialog oder die Form einer Liste. \n darin ist ein Zeilenumbruch.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>None</source>
            <translation>Keine</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Nothing</source>
            <translation>Nichts</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Nothing: the model ends its answers itself</source>
            <translation>Nichts: Das Modell beendet seine Antworten selbst</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>On</source>
            <translation>Ein</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Only so many of the likeliest tokens are drawn from; 0 is no limit.</source>
            <translation>Nur aus so vielen der wahrscheinlichsten Token wird gezogen; 0 heißt unbegrenzt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Only the likeliest tokens that together have this probability are drawn from; 1 is no limit.</source>
            <translation>Nur aus den wahrscheinlichsten Token, die zusammen diese Wahrscheinlichkeit haben, wird gezogen; 1 heißt unbegrenzt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Presence penalty</source>
            <translation>Abzug für Vorhandenes</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Preset of new chats</source>
            <translation>Vorlage neuer Chats</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Random</source>
            <translation>Zufällig</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Regular expression</source>
            <translation>Regulärer Ausdruck</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Repeats of the text</source>
            <translation>Wiederholungen des Textes</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Repetition penalty</source>
            <translation>Abzug für Wiederholungen</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Repetitions of the last so many tokens of the conversation count.</source>
            <translation>Wiederholungen innerhalb der letzten so vielen Token der Unterhaltung zählen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Seed</source>
            <translation>Startwert</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Sequoia tree</source>
            <translation>Sequoia-Baum</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>So many tokens may be repeated before it begins.</source>
            <translation>So viele Token dürfen wiederholt werden, bevor es beginnt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>SpecExec tree</source>
            <translation>SpecExec-Baum</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>SpecInfer sequences</source>
            <translation>SpecInfer-Folgen</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Stop at</source>
            <translation>Halt bei</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Stop, and say so</source>
            <translation>Aufhören und es sagen</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Structured output</source>
            <translation>Strukturierte Ausgabe</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Summarise the oldest turns</source>
            <translation>Die ältesten Beiträge zusammenfassen</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>System prompt</source>
            <translation>Systemanweisung</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Temperature</source>
            <translation>Temperatur</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Text files (*.txt *.regex);;All files (*)</source>
            <translation>Textdateien (*.txt *.regex);;Alle Dateien (*)</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>The answer ends before any of these texts, one in each line, and does not show it. \n in it is a line break.</source>
            <translation>Die Antwort endet vor jedem dieser Texte, einer je Zeile, und zeigt ihn nicht. \n darin ist ein Zeilenumbruch.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>The answer is cut off at this many tokens.</source>
            <translation>Nach so vielen Token wird die Antwort abgeschnitten.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Tokens at least this likely count as likely; the least likely of them is kept.</source>
            <translation>Als wahrscheinlich gelten Token, die mindestens so wahrscheinlich sind; das unwahrscheinlichste von ihnen bleibt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Tokens less likely than this share of the likeliest one are left out; 0 is no limit.</source>
            <translation>Token, die weniger wahrscheinlich sind als dieser Anteil des wahrscheinlichsten, bleiben weg; 0 heißt unbegrenzt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Told to the model before the conversation, such as 'Answer briefly.'</source>
            <translation>Wird dem Modell vor dem Gespräch gesagt, etwa „Antworte kurz.“</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Top-k</source>
            <translation>Top-k</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Top-p</source>
            <translation>Top-p</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>What happens when a conversation has become too long for the model. Nothing is dropped silently.</source>
            <translation>Was geschieht, wenn ein Gespräch für das Modell zu lang geworden ist. Nichts wird stillschweigend weggelassen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>What happens when the conversation fills the context. Turns that are dropped stay on the screen, above a line that says so.</source>
            <translation>Was geschieht, wenn das Gespräch den Kontext füllt. Weggelassene Nachrichten bleiben sichtbar, über einer Linie, die es sagt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>What happens with a full context is '{name}'.</source>
            <translation>Was bei vollem Kontext geschieht, ist „{name}“.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>What the JSON of an answer must look like: the types of its values, their names, and which are required.</source>
            <translation>Wie das JSON einer Antwort aussehen muss: die Typen seiner Werte, ihre Namen, und welche verlangt sind.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>What the whole answer must look like, as a grammar: GBNF, as llama.cpp has it, or Lark.</source>
            <translation>Wie die ganze Antwort aussehen muss, als Grammatik: GBNF, wie llama.cpp es hat, oder Lark.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>When the context is full</source>
            <translation>Wenn der Kontext voll ist</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>With 32-bit weights the same seed, question and settings give the same answer. With 16-bit weights rounding depends on the size of the trees, and answers may part where two tokens are almost equally likely. Empty draws a new seed for every answer.</source>
            <translation>Mit 32-Bit-Gewichten geben derselbe Startwert, dieselbe Frage und dieselben Einstellungen dieselbe Antwort. Mit 16-Bit-Gewichten hängt die Rundung von der Größe der Bäume ab, und Antworten können auseinandergehen, wo zwei Token fast gleich wahrscheinlich sind. Leer wird für jede Antwort ein neuer Startwert gezogen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>With a full context</source>
            <translation>Bei vollem Kontext</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>Without speculation the target writes token by token, mostly slower. The answer has the same probabilities either way; with 32-bit weights it is the same text, with 16-bit weights texts may part where two tokens are almost equally likely.</source>
            <translation>Ohne Spekulation schreibt das Zielmodell Token für Token, meist langsamer. Die Antwort hat so oder so dieselben Wahrscheinlichkeiten; mit 32-Bit-Gewichten ist es derselbe Text, mit 16-Bit-Gewichten können Texte auseinandergehen, wo zwei Token fast gleich wahrscheinlich sind.</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>XTC: chance</source>
            <translation>XTC: Häufigkeit</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>XTC: threshold</source>
            <translation>XTC: Schwelle</translation>
        </message>
        <message>
            <location filename="../../app/settings/generation.py" />
            <source>{option} is out of range.</source>
            <translation>{option}: nicht im erlaubten Bereich.</translation>
        </message>
        <message>
            <location filename="../../app/settings/kinds.py" />
            <source>Takes effect after reloading the model.</source>
            <translation>Gilt, sobald das Modell neu geladen ist.</translation>
        </message>
        <message>
            <location filename="../../app/settings/kinds.py" />
            <source>Takes effect after restarting Coppice.</source>
            <translation>Gilt nach einem Neustart von Coppice.</translation>
        </message>
        <message>
            <location filename="../../app/settings/kinds.py" />
            <source>Used from the next answer on.</source>
            <translation>Gilt ab der nächsten Antwort.</translation>
        </message>
        <message>
            <location filename="../../app/settings/kinds.py" />
            <source>Used in new chats.</source>
            <translation>Gilt für neue Chats.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>%</source>
            <translation> %</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>A file that says which version is the newest, asked for at every start. Empty means never; nothing is downloaded or sent.</source>
            <translation>Eine Datei, die sagt, welche Version die neueste ist; danach wird bei jedem Start gefragt. Leer heißt nie; nichts wird heruntergeladen oder gesendet.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>A long chat of yesterday goes on at once: what the model knew of it is read from the disk. Only you can read it there, and it goes with the chat. Off, what was kept is deleted.</source>
            <translation>Ein langer Chat von gestern geht sofort weiter: Was das Modell davon wusste, kommt von der Platte. Nur Sie können es dort lesen, und es wird mit dem Chat gelöscht. Aus: Aufbewahrtes wird gelöscht.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>A mirror of the hub, or one of your own. Empty means the public one.</source>
            <translation>Ein Spiegel des Hubs oder ein eigener. Leer heißt der öffentliche.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>A pass of the target brings several words at once; they appear one after the other until the next pass is done, never later. Off, they appear as they come.</source>
            <translation>Ein Durchlauf des Zielmodells bringt mehrere Wörter auf einmal; sie erscheinen nacheinander, bis der nächste Durchlauf fertig ist, nie später. Aus: Sie erscheinen, wie sie kommen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Address of the model hub</source>
            <translation>Adresse des Modell-Hubs</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Adds branches to the tree that repeat what the conversation said before, as in code or quotations.</source>
            <translation>Fügt dem Baum Zweige hinzu, die wiederholen, was im Gespräch schon stand, etwa bei Code oder Zitaten.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>As the system</source>
            <translation>Wie das System</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Black on white or white on black, with strong borders and a thick frame around what has the focus.</source>
            <translation>Schwarz auf Weiß oder Weiß auf Schwarz, mit kräftigen Rändern und dickem Rahmen um das, was den Fokus hat.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>By origin: draft or target</source>
            <translation>Nach Herkunft: Entwurf oder Ziel</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>By probability</source>
            <translation>Nach Wahrscheinlichkeit</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Colours the ground of an answer's tokens, never in code: by whose idea they were, the draft's or the target's, or by how likely the target found them. Point at a token for its figures.</source>
            <translation>Färbt den Grund der Token einer Antwort, nie in Code: danach, von wem sie kamen, vom Entwurfs- oder vom Zielmodell, oder danach, wie wahrscheinlich das Zielmodell sie fand. Ein Token unter dem Mauszeiger nennt seine Zahlen.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Dark</source>
            <translation>Dunkel</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Disk for what chats have read</source>
            <translation>Plattenplatz für gelesene Chats</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Everyone in the network</source>
            <translation>Alle im Netzwerk</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Everything</source>
            <translation>Alles</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Folders with models in the usual format, one level deep. My models in the Models window lists them.</source>
            <translation>Ordner mit Modellen im üblichen Format, eine Ebene tief. Das Fenster Modelle zeigt sie unter Meine Modelle.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>For models that no place was chosen for in the Models window. Automatic takes the fastest place that has room.</source>
            <translation>Für Modelle, denen im Fenster Modelle kein Ort gegeben wurde. Automatisch nimmt den schnellsten Ort mit Platz.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>For searches and downloads. Empty means the one of the system, if there is one. A password in it is kept in the system's keyring.</source>
            <translation>Für Suche und Downloads. Leer heißt der des Systems, wenn es einen gibt. Ein Passwort darin kommt in den Schlüsselbund des Systems.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>GPU memory</source>
            <translation>Grafikspeicher</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Guess repetitions of the text</source>
            <translation>Wiederholungen des Textes vermuten</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Guess while layers are awaited</source>
            <translation>Raten, während Schichten unterwegs sind</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>High contrast</source>
            <translation>Hoher Kontrast</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>How much is written into the log. What is said in chats is never written into it.</source>
            <translation>Wie viel ins Protokoll geschrieben wird. Was in Chats gesagt wird, steht nie darin.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Keep what chats have read on disk</source>
            <translation>Gelesene Chats auf der Platte aufbewahren</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Language</source>
            <translation>Sprache</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Learn which guesses are accepted</source>
            <translation>Lernen, welche Vermutungen angenommen werden</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Light</source>
            <translation>Hell</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Light or dark; or whatever the system says, also while the window is open.</source>
            <translation>Hell oder dunkel; oder wie es das System sagt, auch während das Fenster offen ist.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Limit of GPU memory</source>
            <translation>Grenze für Grafikspeicher</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Limit of RAM</source>
            <translation>Grenze für Arbeitsspeicher</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Log</source>
            <translation>Protokoll</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Model folders</source>
            <translation>Modellordner</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>News of versions</source>
            <translation>Neues über Versionen</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Normal</source>
            <translation>Normal</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Nothing is asked of the model hub; models on this computer work as always.</source>
            <translation>Der Modell-Hub wird nicht gefragt; Modelle auf diesem Rechner gehen wie immer.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Only while you are at the end of the conversation; reading further up is never disturbed.</source>
            <translation>Nur solange Sie am Ende des Gesprächs sind; wer weiter oben liest, wird nie gestört.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Others in the network can ask only with a key, which you give them.</source>
            <translation>Andere im Netzwerk können nur mit einem Schlüssel fragen, den Sie ihnen geben.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Packed layers that are streamed lie here: they can be as large as the models, and want a fast SSD.</source>
            <translation>Hier liegen gepackte Schichten zum Streamen: Sie können so groß sein wie die Modelle und wollen eine schnelle SSD.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Port</source>
            <translation>Port</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Prepared models and caches</source>
            <translation>Vorbereitete Modelle und Zwischenspeicher</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Problems only</source>
            <translation>Nur Probleme</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Programs need no entry here. A page in a browser may ask only if its origin is written here, or if there is a * for all of them.</source>
            <translation>Programme brauchen hier keinen Eintrag. Eine Seite im Browser darf nur fragen, wenn ihr Ursprung hier steht, oder ein * für alle.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Proxy</source>
            <translation>Proxy</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>RAM</source>
            <translation>Arbeitsspeicher</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Ranks guesses by how often such ones were accepted, not by what the draft says of them.</source>
            <translation>Ordnet Vermutungen danach, wie oft solche angenommen wurden, nicht danach, was das Entwurfsmodell von ihnen hält.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Reduce motion</source>
            <translation>Bewegung verringern</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>SSD</source>
            <translation>SSD</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Scroll along with an answer</source>
            <translation>Mit der Antwort mitlaufen</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Send with</source>
            <translation>Senden mit</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Show answers evenly</source>
            <translation>Antworten gleichmäßig zeigen</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Start with Coppice</source>
            <translation>Mit Coppice starten</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Stay offline</source>
            <translation>Offline bleiben</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Switches the server on whenever Coppice is opened.</source>
            <translation>Schaltet den Server ein, sooft Coppice geöffnet wird.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Text size</source>
            <translation>Schriftgröße</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>The draft works while layers of the target are on their way; off is only for comparisons.</source>
            <translation>Das Entwurfsmodell arbeitet, während Schichten des Zielmodells unterwegs sind; aus ist nur für Vergleiche.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>The key that sends a message. The other one begins a new line, and so does Shift+Enter.</source>
            <translation>Die Taste, die eine Nachricht sendet. Die andere beginnt eine neue Zeile, ebenso Umschalt+Eingabe.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>The language of menus, buttons and messages. Models answer in whatever language they are asked in.</source>
            <translation>Die Sprache von Menüs, Knöpfen und Meldungen. Modelle antworten in der Sprache, in der sie gefragt werden.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>The most that is taken of it, for models that have no limit of their own.</source>
            <translation>So viel wird höchstens davon belegt, bei Modellen ohne eigene Grenze.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>The number behind the colon of the address. No two programs can have the same.</source>
            <translation>Die Zahl hinter dem Doppelpunkt der Adresse. Zwei Programme können nicht dieselbe haben.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>The size of the font everywhere, compared with the system's.</source>
            <translation>Die Größe der Schrift überall, verglichen mit der des Systems.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Theme</source>
            <translation>Farben</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>This computer only</source>
            <translation>Nur dieser Rechner</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Tint of tokens</source>
            <translation>Tönung der Token</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Trees and panes change at once instead of moving, also if the system wants that. Whether an answer's text appears evenly is set for chats.</source>
            <translation>Bäume und Fensterteile ändern sich sofort, statt sich zu bewegen; auch, wenn das System es so will. Ob der Text einer Antwort gleichmäßig erscheint, wird bei den Chats eingestellt.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Web pages that may ask</source>
            <translation>Webseiten, die fragen dürfen</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>What is free</source>
            <translation>Was frei ist</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>What was of no use for longest makes way. Automatic takes a twentieth of what is free, at most 8 GB.</source>
            <translation>Was am längsten nicht gebraucht wurde, macht Platz. Automatisch nimmt ein Zwanzigstel des freien Platzes, höchstens 8 GB.</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Where layers go</source>
            <translation>Wohin Schichten kommen</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>Who may ask</source>
            <translation>Wer fragen darf</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>addresses such as http://localhost:3000, with spaces between them</source>
            <translation>Adressen wie http://localhost:3000 mit Leerzeichen dazwischen</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>an address such as http://proxy.example:3128</source>
            <translation>eine Adresse wie http://proxy.example:3128</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>an address such as https://hub.example</source>
            <translation>eine Adresse wie https://hub.example</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>an address such as https://news.example/coppice.json</source>
            <translation>eine Adresse wie https://news.example/coppice.json</translation>
        </message>
        <message>
            <location filename="../../app/settings/preferences.py" />
            <source>the platform's cache folder</source>
            <translation>der Zwischenspeicher-Ordner des Systems</translation>
        </message>
        <message>
            <location filename="../../app/shell/command_palette.py" />
            <source>Command palette</source>
            <translation>Befehlspalette</translation>
        </message>
        <message>
            <location filename="../../app/shell/command_palette.py" />
            <source>Commands and chats</source>
            <translation>Befehle und Chats</translation>
        </message>
        <message>
            <location filename="../../app/shell/command_palette.py" />
            <source>Nothing fits.</source>
            <translation>Nichts passt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/command_palette.py" />
            <source>Search commands and chats</source>
            <translation>Befehle und Chats suchen</translation>
        </message>
        <message>
            <location filename="../../app/shell/command_palette.py" />
            <source>What do you want to do, or which chat to open?</source>
            <translation>Was möchten Sie tun, oder welchen Chat öffnen?</translation>
        </message>
        <message>
            <location filename="../../app/shell/command_palette.py" />
            <source>{action} (now off)</source>
            <translation>{action} (jetzt aus)</translation>
        </message>
        <message>
            <location filename="../../app/shell/command_palette.py" />
            <source>{action} (now on)</source>
            <translation>{action} (jetzt ein)</translation>
        </message>
        <message>
            <location filename="../../app/shell/dialogs.py" />
            <source>
&lt;h3&gt;Coppice {version}&lt;/h3&gt;
&lt;p&gt;Chat with a language model that is bigger than your GPU: a small draft model grows a tree of guesses,
one pass of the target model checks them all, and you watch it happen.&lt;/p&gt;
&lt;p&gt;To coppice a tree is to cut it back to the stump so that it regrows.
Every round does that to the tree of guesses.&lt;/p&gt;
&lt;p&gt;Free software under the Apache License 2.0.&lt;/p&gt;
</source>
            <translation>
&lt;h3&gt;Coppice {version}&lt;/h3&gt;
&lt;p&gt;Chatten mit einem Sprachmodell, das größer ist als die Grafikkarte: Ein kleines Entwurfsmodell lässt einen Baum
von Vermutungen wachsen, ein Durchlauf des Zielmodells prüft sie alle, und Sie sehen dabei zu.&lt;/p&gt;
&lt;p&gt;„To coppice“ heißt, einen Baum auf den Stock zu setzen, damit er neu austreibt.
Das geschieht dem Baum der Vermutungen in jeder Runde.&lt;/p&gt;
&lt;p&gt;Freie Software unter der Apache-Lizenz 2.0.&lt;/p&gt;
</translation>
        </message>
        <message>
            <location filename="../../app/shell/dialogs.py" />
            <source>About Coppice</source>
            <translation>Über Coppice</translation>
        </message>
        <message>
            <location filename="../../app/shell/dialogs.py" />
            <source>Crash report</source>
            <translation>Absturzbericht</translation>
        </message>
        <message>
            <location filename="../../app/shell/dialogs.py" />
            <source>In the tree: {what}</source>
            <translation>Im Baum: {what}</translation>
        </message>
        <message>
            <location filename="../../app/shell/dialogs.py" />
            <source>It cannot be read: {reason}</source>
            <translation>Er kann nicht gelesen werden: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/shell/dialogs.py" />
            <source>Keyboard shortcuts</source>
            <translation>Tastenkürzel</translation>
        </message>
        <message>
            <location filename="../../app/shell/dialogs.py" />
            <source>New line</source>
            <translation>Neue Zeile</translation>
        </message>
        <message>
            <location filename="../../app/shell/dialogs.py" />
            <source>Nothing of this is sent anywhere. It holds no chats and no tokens; it helps whoever looks into it.</source>
            <translation>Nichts davon wird irgendwohin gesendet. Er enthält keine Gespräche und keine Token; er hilft denen, die der Sache nachgehen.</translation>
        </message>
        <message>
            <location filename="../../app/shell/engine_setup.py" />
            <source>Show…</source>
            <translation>Zeigen…</translation>
        </message>
        <message>
            <location filename="../../app/shell/engine_setup.py" />
            <source>The engine is being installed. Chats can be read, and models downloaded.</source>
            <translation>Der Rechenkern wird installiert. Unterhaltungen lassen sich lesen und Modelle herunterladen.</translation>
        </message>
        <message>
            <location filename="../../app/shell/engine_setup.py" />
            <source>The engine is not installed yet. Chats can be read, and models downloaded.</source>
            <translation>Der Rechenkern ist noch nicht installiert. Unterhaltungen lassen sich lesen und Modelle herunterladen.</translation>
        </message>
        <message>
            <location filename="../../app/shell/engine_setup.py" />
            <source>The installation of the engine is paused.</source>
            <translation>Die Installation des Rechenkerns ist angehalten.</translation>
        </message>
        <message>
            <location filename="../../app/shell/engine_setup.py" />
            <source>The present one is used until that is done.</source>
            <translation>Der jetzige dient, bis das fertig ist.</translation>
        </message>
        <message>
            <location filename="../../app/shell/engine_setup.py" />
            <source>This version of Coppice was made for a newer engine.</source>
            <translation>Diese Fassung von Coppice ist für einen neueren Rechenkern gemacht.</translation>
        </message>
        <message>
            <location filename="../../app/shell/engine_setup.py" />
            <source>Update…</source>
            <translation>Aktualisieren…</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/crash.py" />
            <source>Coppice cannot start</source>
            <translation>Coppice kann nicht starten</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/crash.py" />
            <source>Coppice cannot write its settings and logs: {folder}: {reason}.</source>
            <translation>Coppice kann Einstellungen und Protokolle nicht schreiben: {folder}: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/crash.py" />
            <source>Make the folder writable, or start Coppice with --data-dir and another folder.</source>
            <translation>Machen Sie den Ordner beschreibbar, oder starten Sie Coppice mit --data-dir und einem anderen Ordner.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>A download has ended because of an error in this program ({error}).</source>
            <translation>Ein Download endete durch einen Fehler in diesem Programm ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>A file could not be attached because of an error in this program ({error}).</source>
            <translation>Eine Datei konnte wegen eines Fehlers in diesem Programm ({error}) nicht angehängt werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>A file for structured output could not be read because of an error in this program ({error}).</source>
            <translation>Eine Datei für die strukturierte Ausgabe konnte wegen eines Fehlers in diesem Programm nicht gelesen werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>A formula could not be drawn because of an error in this program ({error}).</source>
            <translation>Eine Formel konnte wegen eines Fehlers in diesem Programm ({error}) nicht gezeichnet werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>A password could not be read or kept because of an error in this program ({error}).</source>
            <translation>Ein Passwort konnte wegen eines Fehlers in diesem Programm nicht gelesen oder aufbewahrt werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>A picture could not be shown because of an error in this program ({error}).</source>
            <translation>Ein Bild konnte wegen eines Fehlers in diesem Programm nicht gezeigt werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>An animation could not be made because of an error in this program ({error}).</source>
            <translation>Eine Animation konnte wegen eines Fehlers in diesem Programm nicht erstellt werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>An engine elsewhere could not be asked because of an error in this program ({error}).</source>
            <translation>Eine Engine an anderem Ort konnte wegen eines Fehlers in diesem Programm nicht gefragt werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Ask again, or connect to it anew in Models.</source>
            <translation>Fragen Sie noch einmal, oder verbinden Sie sich unter Modelle neu.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Attach it as plain text, or try another file.</source>
            <translation>Hängen Sie sie als reinen Text an, oder versuchen Sie es mit einer anderen Datei.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Change the connection in Models, and enter it again.</source>
            <translation>Ändern Sie die Verbindung unter Modelle, und geben Sie ihn noch einmal ein.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Choose a draft by hand.</source>
            <translation>Wählen Sie selbst ein Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Choose the engine that fits your card.</source>
            <translation>Wählen Sie die Engine, die zu Ihrer Karte passt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Choose the model again, or load it to find out.</source>
            <translation>Wählen Sie das Modell noch einmal, oder laden Sie es, um es zu erfahren.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Choose the model again.</source>
            <translation>Wählen Sie das Modell noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Close Models, open it again and repeat what you did.</source>
            <translation>Schließen Sie „Modelle“, öffnen Sie es wieder, und wiederholen Sie den Schritt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Copy its text into the field.</source>
            <translation>Kopieren Sie den Text in das Feld.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Delete it in Preferences, on the page Memory.</source>
            <translation>Löschen Sie es in den Einstellungen auf der Seite „Speicher“.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Details are in the log.</source>
            <translation>Einzelheiten stehen im Protokoll.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Drafts for this model could not be compared because of an error in this program ({error}).</source>
            <translation>Entwürfe für dieses Modell konnten wegen eines Fehlers in diesem Programm ({error}) nicht verglichen werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Enter it again in Preferences.</source>
            <translation>Geben Sie es in den Einstellungen noch einmal ein.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Formulas and code could not be drawn because of an error in this program ({error}).</source>
            <translation>Formeln und Code konnten wegen eines Fehlers in diesem Programm nicht gezeichnet werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>If something is missing, restart Coppice.</source>
            <translation>Falls etwas fehlt, starten Sie Coppice neu.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>It is tried again with the next change. If this comes again, export the chats and restart Coppice.</source>
            <translation>Mit der nächsten Änderung wird es noch einmal versucht. Kommt dies wieder, exportieren Sie die Chats, und starten Sie Coppice neu.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>It is tried again with the next start.</source>
            <translation>Beim nächsten Start wird es noch einmal versucht.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Its source is shown instead.</source>
            <translation>Stattdessen wird ihr Quelltext gezeigt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>News of versions could not be read because of an error in this program ({error}).</source>
            <translation>Nachrichten über neue Versionen konnten wegen eines Fehlers in diesem Programm ({error}) nicht gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Opening them takes a little longer.</source>
            <translation>Sie zu öffnen dauert etwas länger.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Parts of the window could not be prepared because of an error in this program ({error}).</source>
            <translation>Teile des Fensters konnten wegen eines Fehlers in diesem Programm ({error}) nicht vorbereitet werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Restart Coppice, then try again.</source>
            <translation>Starten Sie Coppice neu, und versuchen Sie es dann noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Restart the engine if it does not answer.</source>
            <translation>Starten Sie die Engine neu, wenn sie nicht antwortet.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Restart the engine.</source>
            <translation>Starten Sie die Engine neu.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Resume it in Models. What has arrived is kept.</source>
            <translation>Setzen Sie ihn in „Modelle“ fort. Was angekommen ist, bleibt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Search again.</source>
            <translation>Suchen Sie noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Some earlier downloads could not be listed because of an error in this program ({error}).</source>
            <translation>Einige frühere Downloads konnten wegen eines Fehlers in diesem Programm ({error}) nicht aufgelistet werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Some of what the engine printed was not written to its log because of an error in this program ({error}).</source>
            <translation>Ein Teil der Ausgaben der Engine fehlt wegen eines Fehlers in diesem Programm in ihrem Protokoll ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Start them again in Models. What has arrived is kept.</source>
            <translation>Starten Sie sie in „Modelle“ noch einmal. Was angekommen ist, bleibt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The chat keeps it, and models are shown it.</source>
            <translation>Der Chat behält es, und Modellen wird es gezeigt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The chats could not be read or saved because of an error in this program ({error}).</source>
            <translation>Die Chats konnten wegen eines Fehlers in diesem Programm ({error}) nicht gelesen oder gespeichert werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The connections are made again in a moment.</source>
            <translation>Die Verbindungen werden gleich neu hergestellt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The connections to tool servers have ended because of an error in this program ({error}).</source>
            <translation>Die Verbindungen zu Werkzeug-Servern sind wegen eines Fehlers in diesem Programm abgebrochen ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The engine could not be removed because of an error in this program ({error}).</source>
            <translation>Die Engine konnte wegen eines Fehlers in diesem Programm ({error}) nicht entfernt werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The engine goes on. Restart it if this comes again.</source>
            <translation>Die Engine läuft weiter. Wenn dies wieder vorkommt, starten Sie sie neu.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The engine's process could not be watched because of an error in this program ({error}).</source>
            <translation>Der Prozess der Engine konnte wegen eines Fehlers in diesem Programm ({error}) nicht überwacht werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The hub's token could not be read or kept because of an error in this program ({error}).</source>
            <translation>Das Token des Hubs konnte wegen eines Fehlers in diesem Programm ({error}) nicht gelesen oder aufbewahrt werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The installation of the engine has ended because of an error in this program ({error}).</source>
            <translation>Die Installation der Engine endete durch einen Fehler in diesem Programm ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The key of an engine could not be kept or forgotten because of an error in this program ({error}).</source>
            <translation>Der Schlüssel einer Engine konnte wegen eines Fehlers in diesem Programm nicht aufbewahrt oder vergessen werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The search for models has ended because of an error in this program ({error}).</source>
            <translation>Die Suche nach Modellen endete durch einen Fehler in diesem Programm ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>The versions of a model could not be listed because of an error in this program ({error}).</source>
            <translation>Die Fassungen eines Modells konnten wegen eines Fehlers in diesem Programm nicht aufgelistet werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>They are asked for again with the next start.</source>
            <translation>Beim nächsten Start werden sie noch einmal abgefragt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>They are made again in a moment.</source>
            <translation>Sie werden gleich neu hergestellt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>They are shown as they were written; the next ones are drawn again.</source>
            <translation>Sie erscheinen, wie sie geschrieben wurden; die nächsten werden wieder gezeichnet.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>This computer's graphics cards could not be looked at because of an error in this program ({error}).</source>
            <translation>Die Grafikkarten dieses Rechners konnten wegen eines Fehlers in diesem Programm ({error}) nicht erkannt werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Tool servers could not be asked because of an error in this program ({error}).</source>
            <translation>Werkzeug-Server konnten wegen eines Fehlers in diesem Programm nicht gefragt werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Try again. What has arrived is kept.</source>
            <translation>Versuchen Sie es noch einmal. Was angekommen ist, bleibt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Try another format or size.</source>
            <translation>Versuchen Sie ein anderes Format oder eine andere Größe.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>What a model needs could not be found out because of an error in this program ({error}).</source>
            <translation>Was ein Modell braucht, konnte wegen eines Fehlers in diesem Programm ({error}) nicht ermittelt werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>What is kept of chats on disk could not be deleted because of an error in this program ({error}).</source>
            <translation>Das Aufbewahrte der Chats konnte wegen eines Fehlers in diesem Programm nicht gelöscht werden ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>What is left of earlier engines could not be removed because of an error in this program ({error}).</source>
            <translation>Reste früherer Engines konnten wegen eines Fehlers in diesem Programm ({error}) nicht entfernt werden.</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Work in the background has ended because of an error in this program ({error}).</source>
            <translation>Eine Arbeit im Hintergrund endete durch einen Fehler in diesem Programm ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/faults/thread_faults.py" />
            <source>Work on the models of this computer has ended because of an error in this program ({error}).</source>
            <translation>Eine Arbeit an den Modellen dieses Rechners endete durch einen Fehler in diesem Programm ({error}).</translation>
        </message>
        <message>
            <location filename="../../app/shell/instance.py" />
            <source>Close it, or end its process; or give another folder with --data-dir.</source>
            <translation>Schließen Sie es, oder beenden Sie seinen Prozess; oder geben Sie mit --data-dir einen anderen Ordner an.</translation>
        </message>
        <message>
            <location filename="../../app/shell/instance.py" />
            <source>Coppice is running with {folder} already, and does not answer.</source>
            <translation>Coppice läuft schon mit {folder} und antwortet nicht.</translation>
        </message>
        <message>
            <location filename="../../app/shell/lifecycle.py" />
            <source>Coppice crashed the last time. Your chats are there; a report was written.</source>
            <translation>Coppice ist beim letzten Mal abgestürzt. Ihre Gespräche sind da; ein Bericht wurde geschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/shell/lifecycle.py" />
            <source>Coppice {version} is there; this is {own}.</source>
            <translation>Coppice {version} ist da; dies ist {own}.</translation>
        </message>
        <message>
            <location filename="../../app/shell/lifecycle.py" />
            <source>Open its page</source>
            <translation>Seite öffnen</translation>
        </message>
        <message>
            <location filename="../../app/shell/lifecycle.py" />
            <source>Show report…</source>
            <translation>Bericht zeigen …</translation>
        </message>
        <message>
            <location filename="../../app/shell/preferences.py" />
            <source>This system has no keyring that would keep the password of the proxy or of the hub's address.</source>
            <translation>Dieses System hat keinen Schlüsselbund, der das Passwort des Proxys oder der Hub-Adresse aufbewahren würde.</translation>
        </message>
        <message>
            <location filename="../../app/shell/program.py" />
            <source>Load again</source>
            <translation>Wieder laden</translation>
        </message>
        <message>
            <location filename="../../app/shell/program.py" />
            <source>Models…</source>
            <translation>Modelle…</translation>
        </message>
        <message>
            <location filename="../../app/shell/program.py" />
            <source>The embedded demo is loaded instead.</source>
            <translation>Stattdessen wird die eingebaute Vorführung geladen.</translation>
        </message>
        <message>
            <location filename="../../app/shell/program.py" />
            <source>The settings cannot be saved in {file}: {reason}.</source>
            <translation>Die Einstellungen können nicht in {file} gespeichert werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/shell/program.py" />
            <source>What was loaded before is loaded instead.</source>
            <translation>Stattdessen wird geladen, was vorher geladen war.</translation>
        </message>
        <message>
            <location filename="../../app/shell/program.py" />
            <source>Your settings could not be read, and begin anew: {reason}.</source>
            <translation>Ihre Einstellungen konnten nicht gelesen werden und beginnen neu: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/shell/program.py" />
            <source>{model} was unloaded, and its memory is free. No model is loaded.</source>
            <translation>{model} wurde entladen, der Speicher ist frei. Es ist kein Modell geladen.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tools.py" />
            <source>Diagnostics are on the clipboard: versions, hardware, settings and the end of the logs.</source>
            <translation>Die Diagnose liegt in der Zwischenablage: Versionen, Hardware, Einstellungen und das Ende der Protokolle.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tools.py" />
            <source>They hold no text of a chat and no token. Read them before you hand them on.</source>
            <translation>Sie enthält keinen Text eines Chats und kein Token. Lesen Sie sie, bevor Sie sie weitergeben.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/callout.py" />
            <source>Back</source>
            <translation>Zurück</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/callout.py" />
            <source>Ctrl+F1 leads to it.</source>
            <translation>Strg+F1 führt dorthin.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/callout.py" />
            <source>End the tour (Esc)</source>
            <translation>Den Rundgang beenden (Esc)</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/callout.py" />
            <source>Next</source>
            <translation>Weiter</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/callout.py" />
            <source>Skip</source>
            <translation>Überspringen</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/callout.py" />
            <source>The next step (Enter)</source>
            <translation>Der nächste Schritt (Eingabe)</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/callout.py" />
            <source>The step before</source>
            <translation>Der Schritt davor</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/callout.py" />
            <source>Tour</source>
            <translation>Rundgang</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>Ask something, and the tree is here (Ctrl+T): what the draft, a small model, guesses in every round, and what of it the target accepts in one pass.</source>
            <translation>Fragen Sie etwas, und hier steht der Baum (Strg+T): was das kleine Entwurfsmodell in jeder Runde rät, und was das Zielmodell davon in einem Durchlauf annimmt.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>Below every answer stands how many tokens a pass of the target gave. The more, the faster: without guesses it is one.</source>
            <translation>Unter jeder Antwort steht, wie viele Token ein Durchlauf des Ziels ergab. Je mehr, desto schneller: Ohne Raten ist es eines.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>In Models (Ctrl+M) you choose a target and a draft for it. The target may be bigger than your GPU: its layers are streamed from memory and disk, and the text stays exactly its own.</source>
            <translation>Unter „Modelle“ (Strg+M) wählen Sie ein Zielmodell und ein Entwurfsmodell dazu. Das Zielmodell darf größer sein als Ihre Grafikkarte: Seine Schichten kommen nacheinander aus Arbeitsspeicher und Platte, und der Text bleibt genau der seine.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>Now a bigger model</source>
            <translation>Nun ein größeres Modell</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>The draft, a small model, guessed a tree of %n tokens.</source>
            <translation>
                <numerusform>Das Entwurfsmodell, ein kleines Modell, hat einen Baum aus %n Token geraten.</numerusform>
                <numerusform>Das Entwurfsmodell, ein kleines Modell, hat einen Baum aus %n Token geraten.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>The target checked all of them in one pass and accepted %n (green): there it ended.</source>
            <translation>
                <numerusform>Das Zielmodell hat alle in einem Durchlauf geprüft und %n angenommen (grün): Dort endete die Antwort.</numerusform>
                <numerusform>Das Zielmodell hat alle in einem Durchlauf geprüft und %n angenommen (grün): Dort endete die Antwort.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>The target checked all of them in one pass and accepted none; it added a token of its own.</source>
            <translation>Das Ziel hat sie alle in einem Durchlauf geprüft und keines angenommen; es hat ein eigenes Token angefügt.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>The target checked all of them in one pass, accepted %n (green), and added one.</source>
            <translation>
                <numerusform>Das Ziel hat alle in einem Durchlauf geprüft, %n angenommen (grün) und eines angefügt.</numerusform>
                <numerusform>Das Ziel hat alle in einem Durchlauf geprüft, %n angenommen (grün) und eines angefügt.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>This button shows the tree (Ctrl+T).</source>
            <translation>Diese Schaltfläche zeigt den Baum (Strg+T).</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>This was one pass of the target. Nothing was guessed for it, so it gave one token. With a draft this is a tree of guesses.</source>
            <translation>Das war ein Durchlauf des Zielmodells. Geraten wurde dafür nichts, also ergab er ein Token. Mit einem Entwurfsmodell steht hier ein Baum aus Geratenem.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>This was the embedded demo, a tiny model. In Models (Ctrl+M) you choose a target of your own. It may be bigger than your GPU: its layers are streamed from memory and disk, and guesses make up for the time.</source>
            <translation>Das war die eingebaute Vorführung, ein winziges Modell. Unter „Modelle“ (Strg+M) wählen Sie ein eigenes Ziel. Es darf größer sein als Ihre Grafikkarte: Seine Schichten kommen nacheinander aus Arbeitsspeicher und Platte, und das Raten gleicht die Zeit aus.</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>Token by token, that would have been %n passes.</source>
            <translation>
                <numerusform>Token für Token wäre das %n Durchlauf gewesen.</numerusform>
                <numerusform>Token für Token wären das %n Durchläufe gewesen.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>What the draft guessed</source>
            <translation>Was das Entwurfsmodell geraten hat</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>What the draft, a small model, guesses in every round, and what of it the target accepts in one pass: green is accepted.</source>
            <translation>Was das Entwurfsmodell, ein kleines Modell, in jeder Runde rät, und was das Zielmodell davon in einem Durchlauf annimmt: Grün ist angenommen.</translation>
        </message>
        <message>
            <location filename="../../app/shell/tour/tour.py" />
            <source>Why it is fast</source>
            <translation>Warum es schnell ist</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/tour/tour.py" />
            <source>{tokens} tokens in %n passes of the target: {rate:.1f} tokens per pass. Without guesses every token takes a pass of its own. Point here to see where the time went; Ctrl+Alt+T shows in the text which tokens were guessed.</source>
            <translation>
                <numerusform>{tokens} Token in %n Durchlauf des Zielmodells: {rate:.1f} Token je Durchlauf. Ohne Raten braucht jedes Token einen eigenen. Zeigen Sie hierher, um zu sehen, wohin die Zeit ging; Strg+Alt+T zeigt im Text, welche Token geraten waren.</numerusform>
                <numerusform>{tokens} Token in %n Durchläufen des Zielmodells: {rate:.1f} Token je Durchlauf. Ohne Raten braucht jedes Token einen eigenen. Zeigen Sie hierher, um zu sehen, wohin die Zeit ging; Strg+Alt+T zeigt im Text, welche Token geraten waren.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/unsaved.py" />
            <source>%n chats are not saved.</source>
            <translation>
                <numerusform>%n Chat ist nicht gespeichert.</numerusform>
                <numerusform>%n Chats sind nicht gespeichert.</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/shell/unsaved.py" />
            <source>%n files were written to {folder}.</source>
            <translation>
                <numerusform>%n Datei wurde in {folder} geschrieben.</numerusform>
                <numerusform>%n Dateien wurden in {folder} geschrieben.</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>Chats are exported or imported</source>
            <translation>Chats werden exportiert oder importiert</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>Chats are not saved</source>
            <translation>Chats sind nicht gespeichert</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>Chats are still being exported or imported.</source>
            <translation>Es werden noch Chats exportiert oder importiert.</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>Coppice quits when that is done. If you quit now, no file is written, and the rest is not imported.</source>
            <translation>Coppice wird danach beendet. Wenn Sie es jetzt beenden, wird keine Datei geschrieben, und der Rest wird nicht importiert.</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>Each chat becomes a file with all its versions, which “Import chats” reads.</source>
            <translation>Jeder Chat wird zu einer Datei mit allen seinen Fassungen, die „Chats importieren“ liest.</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>If you quit now, what is new in them is lost.</source>
            <translation>Wenn Sie jetzt beenden, geht verloren, was darin neu ist.</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>Quit anyway</source>
            <translation>Trotzdem beenden</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>Quit now</source>
            <translation>Jetzt beenden</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>Save chats in a folder</source>
            <translation>Chats in einem Ordner speichern</translation>
        </message>
        <message>
            <location filename="../../app/shell/unsaved.py" />
            <source>The chats could not be saved there: {reason}.</source>
            <translation>Die Chats konnten dort nicht gespeichert werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/shell/updates.py" />
            <source>Check the address in Preferences, Advanced.</source>
            <translation>Prüfen Sie die Adresse in den Einstellungen unter „Erweitert“.</translation>
        </message>
        <message>
            <location filename="../../app/shell/updates.py" />
            <source>News of versions cannot be had: {reason}.</source>
            <translation>Neuigkeiten über Versionen sind nicht zu haben: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/shell/updates.py" />
            <source>Try again later.</source>
            <translation>Versuchen Sie es später noch einmal.</translation>
        </message>
        <message>
            <location filename="../../app/shell/updates.py" />
            <source>What {address} holds is no news of a version.</source>
            <translation>Was unter {address} liegt, ist keine Neuigkeit über eine Version.</translation>
        </message>
        <message>
            <location filename="../../app/shell/updates.py" />
            <source>the server with news of versions</source>
            <translation>der Server mit Neuigkeiten über Versionen</translation>
        </message>
        <message>
            <location filename="../../app/shell/updates.py" />
            <source>{server} answered with {status}</source>
            <translation>{server} antwortete mit {status}</translation>
        </message>
        <message>
            <location filename="../../app/shell/window_wiring.py" />
            <source>This round wrote another version of the answer.</source>
            <translation>Diese Runde hat eine andere Fassung der Antwort geschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/system/http.py" />
            <source>Let it name a file of certificates, or remove it, and start Coppice again.</source>
            <translation>Tragen Sie dort eine Datei mit Zertifikaten ein, oder entfernen Sie die Variable, und starten Sie Coppice neu.</translation>
        </message>
        <message>
            <location filename="../../app/system/http.py" />
            <source>The certificates that {name} names cannot be read: {file}.</source>
            <translation>Die Zertifikate, die {name} nennt, lassen sich nicht lesen: {file}.</translation>
        </message>
        <message>
            <location filename="../../app/system/json_text.py" />
            <source>it consists mostly of brackets</source>
            <translation>es besteht vor allem aus Klammern</translation>
        </message>
        <message>
            <location filename="../../app/system/json_text.py" />
            <source>it is damaged</source>
            <translation>es ist beschädigt</translation>
        </message>
        <message>
            <location filename="../../app/system/json_text.py" />
            <source>it is nested too deeply</source>
            <translation>es ist zu tief verschachtelt</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Accepted by depth</source>
            <translation>Angenommen nach Tiefe</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Bytes of weights that were brought to where they are used in a round, by the seconds of that round; the thick line is the mean of the last {rounds}. Ceiling: what the way of these layers allows at most, by the rates of link and disk that were measured on this machine. Near the ceiling, more layers in faster memory would help; far below it, computation or the draft is slower.</source>
            <translation>Bytes der Gewichte, die in einer Runde dorthin gebracht wurden, wo sie gebraucht werden, durch die Sekunden dieser Runde; die dicke Linie ist das Mittel der letzten {rounds}. Grenze: was der Weg dieser Schichten höchstens erlaubt, nach den auf diesem Rechner gemessenen Raten von Verbindung und Platte. Nahe der Grenze helfen mehr Schichten in schnellerem Speicher; weit darunter sind die Berechnung oder der Entwurf langsamer.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Depth: tokens of the longest continuation that was guessed. Accepted: how many drafted tokens the target took over, as the mean of the last {rounds} rounds. Where both lines meet, a deeper tree would give more.</source>
            <translation>Tiefe: Token der längsten geratenen Fortsetzung. Angenommen: wie viele geratene Token das Ziel übernahm, als Mittel der letzten {rounds} Runden. Wo sich beide Linien treffen, brächte ein tieferer Baum mehr.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Draft probability and acceptance</source>
            <translation>Entwurfswahrscheinlichkeit und Annahme</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Drafted nodes whose parent was accepted, in ten groups by the probability that the draft gave them. Dots: the share that the target accepted. On the dashed line the draft is as sure as it is right; below it, it is too sure. Bars: how many nodes a group has, the largest group as high as the chart. Counted since the conversation was opened.</source>
            <translation>Geratene Knoten, deren Elternknoten angenommen wurde, in zehn Gruppen nach der Wahrscheinlichkeit, die der Entwurf ihnen gab. Punkte: der Anteil, den das Ziel annahm. Auf der gestrichelten Linie ist der Entwurf so sicher, wie er richtig liegt; darunter ist er zu sicher. Balken: wie viele Knoten eine Gruppe hat, die größte so hoch wie das Diagramm. Gezählt, seit das Gespräch geöffnet wurde.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Every cell is a decoder layer of the target, in the memory where it is kept, as wide as its bytes; point at one for its number. Hatched: what else is taken there at most, such as the draft, the context, the room for a pass. Empty: what might still be taken. Layers that are not where the target computes come anew for every pass.</source>
            <translation>Jede Zelle ist eine Decoderschicht des Ziels, in dem Speicher, in dem sie liegt, so breit wie ihre Bytes; zeigen Sie auf eine, um ihre Nummer zu sehen. Schraffiert: was dort sonst höchstens belegt ist, etwa Entwurf, Kontext, Platz für einen Durchlauf. Leer: was noch belegt werden könnte. Schichten, die nicht dort liegen, wo das Ziel rechnet, kommen für jeden Durchlauf neu.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Nodes that the draft grew for the round, the root not counted. All of them are checked in one pass of the target.</source>
            <translation>Knoten, die der Entwurf für die Runde wachsen ließ, die Wurzel nicht gezählt. Alle werden in einem Durchlauf des Ziels geprüft.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Nothing streams: all layers stay where they are computed.</source>
            <translation>Nichts wird geladen: Alle Schichten bleiben, wo sie berechnet werden.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Nothing was drafted yet.</source>
            <translation>Noch wurde nichts geraten.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Nothing was measured yet.</source>
            <translation>Noch wurde nichts gemessen.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Of the rounds whose accepted path led to a node with children at the depth before, the share in which one of them was accepted as well. Hollow bars: fewer than {few} rounds came so far. Counted since the conversation was opened. Point at a bar for the counts.</source>
            <translation>Von den Runden, deren angenommener Pfad in der Tiefe davor zu einem Knoten mit Kindern führte, der Anteil, in dem auch eines von diesen angenommen wurde. Hohle Balken: Weniger als {few} Runden kamen so weit. Gezählt, seit das Gespräch geöffnet wurde. Zeigen Sie auf einen Balken, um die Zahlen zu sehen.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>The time axis counts seconds of answering, waiting for questions left out.</source>
            <translation>Die Zeitachse zählt Sekunden des Antwortens, ohne das Warten auf Fragen.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Thin line: tokens that the answer grew by in a round, by the seconds of that round. Thick line: the same over the last {rounds} rounds together. Reading the question is not counted.</source>
            <translation>Dünne Linie: Token, um die die Antwort in einer Runde wuchs, durch die Sekunden dieser Runde. Dicke Linie: dasselbe über die letzten {rounds} Runden zusammen. Das Lesen der Frage zählt nicht.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Time per round</source>
            <translation>Zeit je Runde</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Tokens that the answer grew by in a round, which is one pass of the target model: the accepted drafted tokens and the bonus token. Thick line: the mean of the last {rounds} rounds. Without speculation it is 1.</source>
            <translation>Token, um die die Antwort in einer Runde wuchs, also in einem Durchlauf des Zielmodells: die angenommenen geratenen Token und das Bonustoken. Dicke Linie: das Mittel der letzten {rounds} Runden. Ohne Spekulation ist es 1.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Tree depth</source>
            <translation>Baumtiefe</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Tree size</source>
            <translation>Baumgröße</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Weights streamed</source>
            <translation>Geladene Gewichte</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>What is “{figure}”?</source>
            <translation>Was ist „{figure}“?</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Where the layers are</source>
            <translation>Wo die Schichten liegen</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>Where the time of a round went; the parts add up to it. Draft: growing the tree. Compute: the target's pass, less what follows. Stream wait: the pass stood still because a layer's weights had not arrived, and the draft had nothing to do either. Hidden draft: the draft worked on while a layer was awaited, so that it cost nothing. Other: accepting, caches, text. Where rounds are many, the slowest of each group of neighbours is drawn.</source>
            <translation>Wohin die Zeit einer Runde ging; die Teile ergeben zusammen ihre Dauer. Entwurf: den Baum wachsen lassen. Rechnen: der Durchlauf des Ziels ohne das Folgende. Warten auf Gewichte: Der Durchlauf stand still, weil die Gewichte einer Schicht noch nicht da waren und auch der Entwurf nichts zu tun hatte. Verdeckter Entwurf: Der Entwurf arbeitete weiter, während auf eine Schicht gewartet wurde, und kostete so nichts. Übriges: Annehmen, Zwischenspeicher, Text. Wo es viele Runden sind, wird die langsamste jeder Gruppe von Nachbarn gezeichnet.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>a round</source>
            <translation>eine Runde</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>accepted, mean</source>
            <translation>angenommen, Mittel</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>depth</source>
            <translation>Tiefe</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>mean</source>
            <translation>Mittel</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/cards.py" />
            <source>nodes</source>
            <translation>Knoten</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/acceptance_charts.py" />
            <source>Depth {depth}: {accepted} of {reached} rounds went on ({share})</source>
            <translation>Tiefe {depth}: {accepted} von {reached} Runden gingen weiter ({share})</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/acceptance_charts.py" />
            <source>Draft probability {low} to {high}: {taken} of {tried} nodes accepted</source>
            <translation>Entwurfswahrscheinlichkeit {low} bis {high}: {taken} von {tried} Knoten angenommen</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/acceptance_charts.py" />
            <source>accepted</source>
            <translation>angenommen</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/acceptance_charts.py" />
            <source>accepted at depth 1</source>
            <translation>angenommen in Tiefe 1</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/acceptance_charts.py" />
            <source>as sure as right</source>
            <translation>so sicher wie richtig</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/acceptance_charts.py" />
            <source>never reached</source>
            <translation>nie erreicht</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/line_chart.py" />
            <source>ceiling</source>
            <translation>Grenze</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>Draft, context, working space and the like, at most</source>
            <translation>Entwurf, Kontext, Arbeitsspeicher und dergleichen, höchstens</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>Experts of layer {number} in RAM</source>
            <translation>Experten der Schicht {number} im RAM</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>Experts of layer {number} on SSD</source>
            <translation>Experten der Schicht {number} auf SSD</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>Free to be taken</source>
            <translation>Noch frei</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>Layer {number} in RAM</source>
            <translation>Schicht {number} im RAM</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>Layer {number} on SSD</source>
            <translation>Schicht {number} auf SSD</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>Layer {number} on the device</source>
            <translation>Schicht {number} auf dem Gerät</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>computed where it is</source>
            <translation>wird gerechnet, wo sie liegt</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>kept in RAM</source>
            <translation>im RAM</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>kept on SSD</source>
            <translation>auf SSD</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>other</source>
            <translation>Übriges</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/memory_picture.py" />
            <source>{layers}, {taken} of {room}</source>
            <translation>{layers}, {taken} von {room}</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/stack_chart.py" />
            <source>compute</source>
            <translation>Rechnen</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/stack_chart.py" />
            <source>draft</source>
            <translation>Entwurf</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/stack_chart.py" />
            <source>hidden draft</source>
            <translation>verdeckter Entwurf</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/charts/stack_chart.py" />
            <source>stream wait</source>
            <translation>Warten auf Gewichte</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison.py" />
            <source>Ask something first: the comparison repeats the last question without speculation.</source>
            <translation>Fragen Sie zuerst etwas: Der Vergleich wiederholt die letzte Frage ohne Spekulation.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison.py" />
            <source>The last answer has no figures to compare with. Regenerate it, then compare.</source>
            <translation>Die letzte Antwort hat keine Zahlen zum Vergleichen. Erzeugen Sie sie neu, dann vergleichen Sie.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison.py" />
            <source>The last answer was written by other models. Regenerate it, then compare.</source>
            <translation>Die letzte Antwort wurde von anderen Modellen geschrieben. Erzeugen Sie sie neu, dann vergleichen Sie.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison.py" />
            <source>The last answer was written without speculation. Choose a method, regenerate it, then compare.</source>
            <translation>Die letzte Antwort wurde ohne Spekulation geschrieben. Wählen Sie ein Verfahren, erzeugen Sie sie neu, dann vergleichen Sie.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison.py" />
            <source>This engine speculates as it was started: it cannot be asked to write without.</source>
            <translation>Diese Engine spekuliert so, wie sie gestartet wurde: Man kann sie nicht bitten, ohne zu schreiben.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison.py" />
            <source>Wait for the end of the answer.</source>
            <translation>Warten Sie das Ende der Antwort ab.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison.py" />
            <source>Wait until a model is loaded.</source>
            <translation>Warten Sie, bis ein Modell geladen ist.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Answering without speculation: {done} of {count} tokens</source>
            <translation>Antwort ohne Spekulation: {done} von {count} Token</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Asks the last question once more, with the same seed but without speculation, for as many tokens as the answer has. Both speeds are tokens by seconds of decoding, measured here; reading the question is not counted. The conversation stays as it is. An answer that is asked for meanwhile goes first.</source>
            <translation>Stellt die letzte Frage noch einmal, mit demselben Startwert, aber ohne Spekulation, für so viele Token, wie die Antwort hat. Beide Geschwindigkeiten sind Token durch Sekunden des Schreibens, hier gemessen; das Lesen der Frage zählt nicht. Das Gespräch bleibt, wie es ist. Eine Antwort, die inzwischen verlangt wird, geht vor.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Both wrote the same text.</source>
            <translation>Beide haben denselben Text geschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Compare</source>
            <translation>Vergleichen</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>How much faster is it than without speculation?</source>
            <translation>Wie viel schneller ist es als ohne Spekulation?</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Progress of the comparison</source>
            <translation>Fortschritt des Vergleichs</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Show both answers beside each other, and replay them at their speeds</source>
            <translation>Beide Antworten nebeneinander zeigen und in ihrem Tempo abspielen</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Side by side…</source>
            <translation>Nebeneinander…</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Slower, {ratio} times the speed: {fast} tokens/s with {method}, {slow} tokens/s without speculation.</source>
            <translation>Langsamer, das {ratio}-Fache der Geschwindigkeit: {fast} Token/s mit {method}, {slow} Token/s ohne Spekulation.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>The texts differ where two tokens were about equally likely: sums are rounded in another order.</source>
            <translation>Die Texte unterscheiden sich dort, wo zwei Token etwa gleich wahrscheinlich waren: Summen werden in anderer Reihenfolge gerundet.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>The texts differ, as they may at temperature {temperature}: tokens are drawn at random, from the same probabilities.</source>
            <translation>Die Texte unterscheiden sich, was bei Temperatur {temperature} vorkommt: Token werden zufällig gezogen, aus denselben Wahrscheinlichkeiten.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>There is no answer that is over yet.</source>
            <translation>Es gibt noch keine Antwort, die zu Ende ist.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>With speculation</source>
            <translation>Mit Spekulation</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>Without speculation</source>
            <translation>Ohne Spekulation</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>{fast} tokens/s with {method}, {slow} tokens/s without speculation. That is too little to compare.</source>
            <translation>{fast} Token/s mit {method}, {slow} Token/s ohne Spekulation. Das ist zu wenig zum Vergleichen.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/comparison_bar.py" />
            <source>{ratio} times as fast: {fast} tokens/s with {method}, {slow} tokens/s without speculation.</source>
            <translation>{ratio}-mal so schnell: {fast} Token/s mit {method}, {slow} Token/s ohne Spekulation.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/dock.py" />
            <source>Telemetry</source>
            <translation>Telemetrie</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>Accepted by place</source>
            <translation>Angenommen nach Platz</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>An engine elsewhere writes: what it tells of its figures comes at the end.</source>
            <translation>Eine andere Engine schreibt: Was sie an Zahlen nennt, kommt am Ende.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>Of the steps that had a drafted token at this place, behind accepted ones, those in which it was accepted. Hollow bars: fewer than {few} steps. Counted over the newest answer. Point at a bar for the counts.</source>
            <translation>Von den Schritten, die an diesem Platz hinter angenommenen Token ein geratenes hatten, jene, in denen es angenommen wurde. Hohle Balken: weniger als {few} Schritte. Gezählt über die neueste Antwort. Zeigen Sie auf einen Balken, um die Anzahlen zu sehen.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>Thin line: tokens that arrived at a moment, by the seconds since the moment before. Thick line: the same over the last {rounds} moments together. Measured in this window, the way of the text included; the engine's own figure stands above.</source>
            <translation>Dünne Linie: Token, die in einem Augenblick ankamen, durch die Sekunden seit dem vorigen. Dicke Linie: dasselbe über die letzten {rounds} Augenblicke zusammen. In diesem Fenster gemessen, mit dem Weg des Textes; die Zahl der Engine selbst steht darüber.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>This engine does not count tokens while it writes.</source>
            <translation>Diese Engine zählt keine Token, während sie schreibt.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>This engine does not tell its steps.</source>
            <translation>Diese Engine nennt ihre Schritte nicht.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>This engine tells its steps at the end, if at all.</source>
            <translation>Diese Engine nennt ihre Schritte am Ende, wenn überhaupt.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>This engine tells no figures.</source>
            <translation>Diese Engine nennt keine Zahlen.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>Tokens per second, as they arrive</source>
            <translation>Token je Sekunde, wie sie ankommen</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>a moment</source>
            <translation>ein Augenblick</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>{rate:.2f} tokens per step</source>
            <translation>{rate:.2f} Token je Schritt</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/elsewhere_page.py" />
            <source>{share} of the drafted tokens accepted</source>
            <translation>{share} der geratenen Token angenommen</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/panel.py" />
            <source>Charts</source>
            <translation>Diagramme</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/panel.py" />
            <source>Figures appear here while an answer is written.</source>
            <translation>Zahlen erscheinen hier, während eine Antwort geschrieben wird.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/panel.py" />
            <source>Point at a chart for the figures of one round, click to see its tree. Control and the wheel zoom, dragging moves, a double click shows everything. With the keyboard: left and right, Return, + and −, Home.</source>
            <translation>Zeigen Sie auf ein Diagramm für die Zahlen einer Runde, klicken Sie für ihren Baum. Strg und das Rad vergrößern, Ziehen verschiebt, ein Doppelklick zeigt alles. Mit der Tastatur: links und rechts, Eingabe, + und −, Pos1.</translation>
        </message>
        <message>
            <location filename="../../app/telemetry/panel.py" />
            <source>Reading the figures of {count} earlier rounds…</source>
            <translation>Die Zahlen von {count} früheren Runden werden gelesen …</translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/telemetry/panel.py" />
            <source>Round {number} of {count}, {clock} into answering: %n new tokens</source>
            <translation>
                <numerusform>Runde {number} von {count}, nach {clock} des Antwortens: %n neues Token</numerusform>
                <numerusform>Runde {number} von {count}, nach {clock} des Antwortens: %n neue Token</numerusform>
            </translation>
        </message>
        <message numerus="yes">
            <location filename="../../app/telemetry/panel.py" />
            <source>Round {number}, the newest, {clock} into answering: %n new tokens</source>
            <translation>
                <numerusform>Runde {number}, die neueste, nach {clock} des Antwortens: %n neues Token</numerusform>
                <numerusform>Runde {number}, die neueste, nach {clock} des Antwortens: %n neue Token</numerusform>
            </translation>
        </message>
        <message>
            <location filename="../../app/tools/link.py" />
            <source>The program that holds the connections could not be started: {reason}.</source>
            <translation>Das Programm, das die Verbindungen hält, konnte nicht gestartet werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The arguments are no JSON object.</source>
            <translation>Die Argumente sind kein JSON-Objekt.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The call was stopped.</source>
            <translation>Der Aufruf wurde abgebrochen.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The connection to the server ended during the call.</source>
            <translation>Die Verbindung zum Server endete während des Aufrufs.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The list of tool servers cannot be saved in {file}: {reason}.</source>
            <translation>Die Liste der Werkzeug-Server kann nicht in {file} gespeichert werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The list of tool servers could not be read, and begins anew: {reason}.</source>
            <translation>Die Liste der Werkzeug-Server konnte nicht gelesen werden und beginnt neu: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The program that holds the connections has ended unexpectedly.</source>
            <translation>Das Programm, das die Verbindungen hält, endete unerwartet.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The server was switched off during the call.</source>
            <translation>Der Server wurde während des Aufrufs ausgeschaltet.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The tool server '{name}' cannot be used: {reason}</source>
            <translation>Der Werkzeug-Server „{name}“ kann nicht verwendet werden: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>The tool server '{name}' has ended, and is started again.</source>
            <translation>Der Werkzeug-Server „{name}“ endete und wird neu gestartet.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>There is no tool of this name.</source>
            <translation>Es gibt kein Werkzeug dieses Namens.</translation>
        </message>
        <message>
            <location filename="../../app/tools/servers.py" />
            <source>Tools…</source>
            <translation>Werkzeuge…</translation>
        </message>
        <message>
            <location filename="../../app/tools/snippet.py" />
            <source>A server has a command or an url, under a name of its own.</source>
            <translation>Ein Server hat unter einem eigenen Namen „command“ oder „url“.</translation>
        </message>
        <message>
            <location filename="../../app/tools/snippet.py" />
            <source>Paste the whole text, from the first brace to the last.</source>
            <translation>Fügen Sie den ganzen Text ein, von der ersten geschweiften Klammer bis zur letzten.</translation>
        </message>
        <message>
            <location filename="../../app/tools/snippet.py" />
            <source>Server</source>
            <translation>Server</translation>
        </message>
        <message>
            <location filename="../../app/tools/snippet.py" />
            <source>There is no server in it.</source>
            <translation>Darin ist kein Server.</translation>
        </message>
        <message>
            <location filename="../../app/tools/snippet.py" />
            <source>This is no JSON.</source>
            <translation>Das ist kein JSON.</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Back to the conversation</source>
            <translation>Zurück zum Gespräch</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Close the recording (L)</source>
            <translation>Die Aufzeichnung schließen (L)</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>From the next answer on; the answers stay the same, but may come slower.</source>
            <translation>Ab der nächsten Antwort; die Antworten bleiben dieselben, kommen aber vielleicht langsamer.</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>How fast rounds are played, of the speed at which they were computed</source>
            <translation>Wie schnell Runden abgespielt werden, gemessen an der Geschwindigkeit, mit der sie berechnet wurden</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Live</source>
            <translation>Live</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Pause at this round, or go on through the rounds (Space). The answer is written on meanwhile.</source>
            <translation>Bei dieser Runde anhalten oder weiter durch die Runden gehen (Leertaste). Die Antwort wird inzwischen weitergeschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Play</source>
            <translation>Abspielen</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Recording “{name}”: 1 round</source>
            <translation>Aufzeichnung „{name}“: eine Runde</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Recording “{name}”: {count} rounds</source>
            <translation>Aufzeichnung „{name}“: {count} Runden</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Recording “{name}”: {count} rounds so far…</source>
            <translation>Aufzeichnung „{name}“: bisher {count} Runden…</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Show larger trees</source>
            <translation>Größere Bäume zeigen</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Show the newest round as it comes (L)</source>
            <translation>Die neueste Runde zeigen, sobald sie kommt (L)</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Small trees. {reason}</source>
            <translation>Kleine Bäume. {reason}</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Speed</source>
            <translation>Geschwindigkeit</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>The budget tunes itself: larger trees would not make this pair faster.</source>
            <translation>Das Budget stellt sich selbst ein: Größere Bäume würden dieses Paar nicht schneller machen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>The next round (.)</source>
            <translation>Die nächste Runde (.)</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>The round before (,)</source>
            <translation>Die Runde davor (,)</translation>
        </message>
        <message>
            <location filename="../../app/tree/bars.py" />
            <source>Trees have up to {count} nodes from the next answer on.</source>
            <translation>Ab der nächsten Antwort haben Bäume bis zu {count} Knoten.</translation>
        </message>
        <message>
            <location filename="../../app/tree/dock.py" />
            <source>Speculation tree</source>
            <translation>Spekulationsbaum</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>1 step</source>
            <translation>1 Schritt</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>Of all drafted tokens. This engine speculates without a tree: a step drafts a chain of tokens.</source>
            <translation>Von allen geratenen Token. Diese Engine spekuliert ohne Baum: Ein Schritt rät eine Kette von Token.</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>Passes of the engine's target model over drafted tokens, in this answer</source>
            <translation>Durchläufe des Zielmodells der Engine über geratene Token in dieser Antwort</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>The accepted tokens of a step, and one of the target's own. Without speculation this is 1.</source>
            <translation>Die angenommenen Token eines Schritts und eines vom Zielmodell selbst. Ohne Spekulation ist das 1.</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>This engine does not tell of its rounds while it writes.</source>
            <translation>Diese Engine erzählt nichts von ihren Runden, während sie schreibt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>This engine does not tell of its rounds.</source>
            <translation>Diese Engine erzählt nichts von ihren Runden.</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>This engine speculates without a tree, and does not tell its steps: {tokens} tokens in {passes} passes of its target, {share} of the drafted tokens accepted.</source>
            <translation>Diese Engine spekuliert ohne Baum und nennt ihre Schritte nicht: {tokens} Token in {passes} Durchläufen ihres Zielmodells, {share} der geratenen Token angenommen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>This engine wrote this answer without speculation.</source>
            <translation>Diese Engine hat diese Antwort ohne Spekulation geschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>{count} steps</source>
            <translation>{count} Schritte</translation>
        </message>
        <message>
            <location filename="../../app/tree/elsewhere.py" />
            <source>{share} accepted</source>
            <translation>{share} angenommen</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>A model writes token by token: a word, or a piece of one; ‘·’ is a space. The answer so far ends with {token}. What comes next?</source>
            <translation>Ein Modell schreibt Token für Token: ein Wort oder ein Stück davon; ‚·‘ ist ein Leerzeichen. Die Antwort endet bisher mit {token}. Was kommt als Nächstes?</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Behind that it says {token}, which was guessed: accepted.</source>
            <translation>Dahinter sagt es {token}, was geraten war: angenommen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Behind the last guess the target says {token} of its own: the bonus, from the same pass.</source>
            <translation>Hinter dem letzten Geratenen sagt das Ziel von sich aus {token}: der Bonus, aus demselben Durchlauf.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>End the explanation</source>
            <translation>Die Erklärung beenden</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>It guesses on behind its likeliest guesses, several at a time. By now it has {count} tokens.</source>
            <translation>Er rät hinter dem Wahrscheinlichsten weiter, mehrere auf einmal. Inzwischen sind es {count} Token.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>It guesses on behind its likeliest guesses, several at a time. The likelier, the sooner: so it becomes a tree.</source>
            <translation>Er rät hinter dem Wahrscheinlichsten weiter, mehrere auf einmal. Je wahrscheinlicher, desto früher: So wird es ein Baum.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>None of the first guesses is what the target says next: no token is accepted.</source>
            <translation>Nichts vom zuerst Geratenen ist, was das Ziel als Nächstes sagt: Kein Token wird angenommen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Nothing was guessed, so the target says {token} of its own: the bonus, from the same pass.</source>
            <translation>Nichts war geraten, also sagt das Ziel von sich aus {token}: der Bonus, aus demselben Durchlauf.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Now it has {count} tokens, up to {depth} deep.</source>
            <translation>Jetzt sind es {count} Token, bis zu {depth} tief.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Now the target, the model that counts, checks all {count} tokens at once. One pass over them takes hardly longer than one pass over a single token.</source>
            <translation>Jetzt prüft das Ziel, das Modell, auf das es ankommt, alle {count} Token auf einmal. Ein Durchlauf über sie dauert kaum länger als einer über ein einziges Token.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Now the target, the model that counts, checks it.</source>
            <translation>Jetzt prüft es das Ziel, das Modell, auf das es ankommt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Step {number} of {count}</source>
            <translation>Schritt {number} von {count}</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>The answer has grown by one token in one pass.</source>
            <translation>Die Antwort ist in einem Durchlauf um ein Token gewachsen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>The answer has grown by {count} tokens in one pass.</source>
            <translation>Die Antwort ist in einem Durchlauf um {count} Token gewachsen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>The draft, a small and fast model, guesses {token} and one more.</source>
            <translation>Das Entwurfsmodell, klein und schnell, rät {token} und noch eines.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>The draft, a small and fast model, guesses {token} and {count} others.</source>
            <translation>Das Entwurfsmodell, klein und schnell, rät {token} und {count} weitere.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>The draft, a small and fast model, guesses {token}.</source>
            <translation>Das Entwurfsmodell, klein und schnell, rät {token}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>The next step (Space)</source>
            <translation>Der nächste Schritt (Leertaste)</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>The other guesses are cut, and it starts anew.</source>
            <translation>Das übrige Geratene wird abgeschnitten, und es beginnt von Neuem.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>The target says {token}, which was guessed: accepted.</source>
            <translation>Das Ziel sagt {token}, was geraten war: angenommen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Token by token, that would have taken {count} passes.</source>
            <translation>Token für Token wären das {count} Durchläufe gewesen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>Where no guess fits, the target says {token} of its own: the bonus, from the same pass.</source>
            <translation>Wo nichts Geratenes passt, sagt das Ziel von sich aus {token}: der Bonus, aus demselben Durchlauf.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>With the last of these guesses the answer ends.</source>
            <translation>Mit dem letzten dieser geratenen Token endet die Antwort.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>{token} and the other guesses here are out, with all behind them.</source>
            <translation>{token} und die anderen hier scheiden aus, mit allem dahinter.</translation>
        </message>
        <message>
            <location filename="../../app/tree/explainer.py" />
            <source>{token} is out, with all behind it.</source>
            <translation>{token} scheidet aus, mit allem dahinter.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>1 round</source>
            <translation>1 Runde</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Animations cannot be written as {suffix}. Choose one of these: {suffixes}</source>
            <translation>Animationen lassen sich nicht als {suffix} schreiben. Wählen Sie eine von diesen Endungen: {suffixes}</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>As it was, at speed</source>
            <translation>Wie es war, Tempo</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Begin again at the end</source>
            <translation>Am Ende von vorn beginnen</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Chips</source>
            <translation>Chips</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Colours</source>
            <translation>Farben</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Export animation</source>
            <translation>Animation exportieren</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Format</source>
            <translation>Format</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Full HD, {width} × {height}</source>
            <translation>Full HD, {width} × {height}</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Icicle</source>
            <translation>Eiszapfen</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Preview</source>
            <translation>Vorschau</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Progress</source>
            <translation>Fortschritt</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Round {done} of {count}; about {size} in the end.</source>
            <translation>Runde {done} von {count}; am Ende etwa {size}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Save…</source>
            <translation>Speichern…</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Seconds per round</source>
            <translation>Sekunden je Runde</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Show how trees grow</source>
            <translation>Zeigen, wie die Bäume wachsen</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Small, {width} × {height}</source>
            <translation>Klein, {width} × {height}</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Speed, or seconds per round</source>
            <translation>Tempo oder Sekunden je Runde</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Square, {width} × {height}</source>
            <translation>Quadratisch, {width} × {height}</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Tall, {width} × {height}</source>
            <translation>Hoch, {width} × {height}</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Tree</source>
            <translation>Baum</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>Wide, {width} × {height}</source>
            <translation>Breit, {width} × {height}</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>{count} rounds</source>
            <translation>{count} Runden</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/dialog.py" />
            <source>{rounds}, about {seconds} s and {size}.</source>
            <translation>{rounds}, etwa {seconds} s und {size}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/encoding.py" />
            <source>Choose another format.</source>
            <translation>Wählen Sie ein anderes Format.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/encoding.py" />
            <source>Try again, or choose a smaller size.</source>
            <translation>Versuchen Sie es noch einmal, oder wählen Sie eine kleinere Größe.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/encoding.py" />
            <source>{name} animations cannot be written here: the library for it is missing.</source>
            <translation>{name}-Animationen lassen sich hier nicht schreiben: Die Bibliothek dafür fehlt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/encoding.py" />
            <source>{name} was not finished: the process that writes it ended.</source>
            <translation>{name} wurde nicht fertig: Der Prozess, der die Datei schreibt, ist beendet worden.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/film.py" />
            <source>None of these rounds is kept any more.</source>
            <translation>Keine dieser Runden ist noch aufbewahrt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/film.py" />
            <source>The animation is in {name}: {seconds} s, {size}.</source>
            <translation>Die Animation liegt in {name}: {seconds} s, {size}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/formats.py" />
            <source>GIF animations (*.gif)</source>
            <translation>GIF-Animationen (*.gif)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/formats.py" />
            <source>WebP animations (*.webp)</source>
            <translation>WebP-Animationen (*.webp)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/scene.py" />
            <source>1 node</source>
            <translation>1 Knoten</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/scene.py" />
            <source>Round {number}</source>
            <translation>Runde {number}</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/scene.py" />
            <source>being checked</source>
            <translation>wird geprüft</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/scene.py" />
            <source>not checked yet</source>
            <translation>noch nicht geprüft</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/animations/scene.py" />
            <source>{count} nodes</source>
            <translation>{count} Knoten</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>Copy picture (C)</source>
            <translation>Bild kopieren (C)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>Export animation… (M)</source>
            <translation>Animation exportieren… (M)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>Export picture</source>
            <translation>Bild exportieren</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>Export picture… (P)</source>
            <translation>Bild exportieren… (P)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>Open recording…</source>
            <translation>Aufzeichnung öffnen…</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>Pictures cannot be written as {suffix}. Choose one of these: {suffixes}</source>
            <translation>Bilder lassen sich nicht als {suffix} schreiben. Wählen Sie eine von diesen Endungen: {suffixes}</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>Save recording…</source>
            <translation>Aufzeichnung speichern…</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>The picture is in {name}.</source>
            <translation>Das Bild ist in {name}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>The picture is on the clipboard.</source>
            <translation>Das Bild ist in der Zwischenablage.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>There are no rounds of an answer to make an animation of.</source>
            <translation>Es gibt keine Runden einer Antwort, aus denen eine Animation werden könnte.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>There is nothing to be exported yet.</source>
            <translation>Es gibt noch nichts zu exportieren.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/exports.py" />
            <source>What is shown is on the clipboard, as text.</source>
            <translation>Was zu sehen ist, ist als Text in der Zwischenablage.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/failures.py" />
            <source>{name} could not be written: its folder is not there any more. Choose another place.</source>
            <translation>{name} konnte nicht geschrieben werden: Der Ordner ist nicht mehr da. Wählen Sie einen anderen Ort.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/failures.py" />
            <source>{name} could not be written: nothing may be written there. Choose another place.</source>
            <translation>{name} konnte nicht geschrieben werden: Dort darf nichts geschrieben werden. Wählen Sie einen anderen Ort.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/failures.py" />
            <source>{name} could not be written: the disk is full. Make room, or choose another place.</source>
            <translation>{name} konnte nicht geschrieben werden: Der Datenträger ist voll. Schaffen Sie Platz, oder wählen Sie einen anderen Ort.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/failures.py" />
            <source>{name} could not be written: {reason}. Choose another place.</source>
            <translation>{name} konnte nicht geschrieben werden: {reason}. Wählen Sie einen anderen Ort.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/fields.py" />
            <source>As the window</source>
            <translation>Wie das Fenster</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>Figures of the round below it</source>
            <translation>Zahlen der Runde darunter</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>For a paper</source>
            <translation>Für einen Artikel</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>For a post</source>
            <translation>Für einen Beitrag</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>In the colours of the window, 1,600 pixels wide, as PNG</source>
            <translation>In den Farben des Fensters, 1.600 Pixel breit, als PNG</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>Light, without a background, the whole tree, 160 mm wide, as PDF</source>
            <translation>Hell, ohne Hintergrund, der ganze Baum, 160 mm breit, als PDF</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>Part</source>
            <translation>Ausschnitt</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>The whole tree</source>
            <translation>Der ganze Baum</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>Transparent background</source>
            <translation>Durchsichtiger Hintergrund</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>Unit</source>
            <translation>Einheit</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>What is shown</source>
            <translation>Was zu sehen ist</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>Width</source>
            <translation>Breite</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>mm</source>
            <translation>mm</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>pixels</source>
            <translation>Pixel</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>{width} × {height} mm</source>
            <translation>{width} × {height} mm</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/dialog.py" />
            <source>{width} × {height} pixels</source>
            <translation>{width} × {height} Pixel</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/formats.py" />
            <source>Choose a smaller width, or SVG or PDF.</source>
            <translation>Wählen Sie eine kleinere Breite oder SVG oder PDF.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/formats.py" />
            <source>PDF pages (*.pdf)</source>
            <translation>PDF-Seiten (*.pdf)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/formats.py" />
            <source>PNG pictures (*.png)</source>
            <translation>PNG-Bilder (*.png)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/formats.py" />
            <source>SVG vector pictures (*.svg)</source>
            <translation>SVG-Vektorbilder (*.svg)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/pictures/formats.py" />
            <source>This picture would have {width} × {height} pixels, which is too many.</source>
            <translation>Dieses Bild hätte {width} × {height} Pixel, und das sind zu viele.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/recordings.py" />
            <source>Another recording is still being saved. Save this one when that is done.</source>
            <translation>Eine andere Aufzeichnung wird noch gespeichert. Speichern Sie diese, wenn das fertig ist.</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/recordings.py" />
            <source>Open recording</source>
            <translation>Aufzeichnung öffnen</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/recordings.py" />
            <source>Recordings (*.coppice *.jsonl);;All files (*)</source>
            <translation>Aufzeichnungen (*.coppice *.jsonl);;Alle Dateien (*)</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/recordings.py" />
            <source>Save recording</source>
            <translation>Aufzeichnung speichern</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/recordings.py" />
            <source>Saving: {done} of {count} rounds…</source>
            <translation>Speichern: {done} von {count} Runden…</translation>
        </message>
        <message>
            <location filename="../../app/tree/exports/recordings.py" />
            <source>There is no round to save yet.</source>
            <translation>Es gibt noch keine Runde zu speichern.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>, {count} shown</source>
            <translation>, davon {count} gezeigt</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Fit</source>
            <translation>Einpassen</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Follow</source>
            <translation>Folgen</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>More</source>
            <translation>Mehr</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Move to the end of the accepted path with every round. Dragging switches it off.</source>
            <translation>Mit jeder Runde zum Ende des angenommenen Pfads gehen. Ziehen schaltet es aus.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>No draft model guessed ahead in this round, so the pass of the target model gave one token.</source>
            <translation>In dieser Runde hat kein Entwurfsmodell vorausgeraten, deshalb ergab der Durchlauf des Zielmodells ein Token.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Recordings, pictures, texts and explanations</source>
            <translation>Aufzeichnungen, Bilder, Texte und Erklärungen</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Rounds of this answer so far. In a round the draft model guesses a tree of continuations, then one pass of the target model checks them all.</source>
            <translation>Bisherige Runden dieser Antwort. In einer Runde rät das Entwurfsmodell einen Baum von Fortsetzungen, dann prüft ein Durchlauf des Zielmodells sie alle.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Show the whole tree (F). Zoom with the wheel or + and −, drag to move, Home and End show where the accepted path begins and ends.</source>
            <translation>Den ganzen Baum zeigen (F). Mit dem Rad oder + und − vergrößern, durch Ziehen verschieben; Pos1 und Ende zeigen, wo der angenommene Pfad beginnt und endet.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>The draft model has guessed these; the target model's pass, which decides what is accepted, is still to come.</source>
            <translation>Das Entwurfsmodell hat sie geraten; der Durchlauf des Zielmodells, der entscheidet, was angenommen wird, kommt erst noch.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>The target model's pass is under way, which decides what is accepted of these.</source>
            <translation>Der Durchlauf des Zielmodells ist im Gange; er entscheidet, was davon angenommen wird.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Tokens as bands, as high as they are likely: the overview. (2)</source>
            <translation>Token als Bänder, so hoch, wie sie wahrscheinlich sind: der Überblick. (2)</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Tokens as chips: to be read. (1)</source>
            <translation>Token als Chips: zum Lesen. (1)</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Tokens in the longest continuation that was guessed.</source>
            <translation>Token der längsten geratenen Fortsetzung.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>Tokens that the draft model guessed in this round; the root is not counted, it is the last token of the answer so far. Unlikely nodes are folded: +3 at a token says that three are hidden behind it: click it, or zoom in.</source>
            <translation>Token, die das Entwurfsmodell in dieser Runde geraten hat; die Wurzel zählt nicht mit, sie ist das letzte Token der bisherigen Antwort. Unwahrscheinliche Knoten sind eingeklappt: +3 an einem Token heißt, dass drei dahinter verborgen sind; ein Klick darauf oder Vergrößern zeigt sie.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>What the answer grew by in this pass of the target model. Accepted: drafted tokens that the target chose too, one behind the other from the root. Bonus: one more token, the target's own choice where no drafted token matched it; none where the answer ends with a guess. Without a draft every pass gives just the bonus token.</source>
            <translation>Worum die Antwort in diesem Durchlauf des Zielmodells gewachsen ist. Angenommen: geratene Token, die auch das Ziel gewählt hat, eines hinter dem anderen von der Wurzel an. Bonus: noch ein Token, die eigene Wahl des Ziels, wo kein geratenes passte; keines, wo die Antwort mit einem geratenen endet. Ohne Entwurfsmodell ergibt jeder Durchlauf nur das Bonus-Token.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>While the weights of the target model are on their way, the draft model guesses on: nodes with dotted lines. Those behind the bonus token are where the next round begins.</source>
            <translation>Während die Gewichte des Zielmodells unterwegs sind, rät das Entwurfsmodell weiter: Knoten mit gepunkteten Linien. Was davon hinter dem Bonus-Token steht, ist der Anfang der nächsten Runde.</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>depth {depth}</source>
            <translation>Tiefe {depth}</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>nothing drafted</source>
            <translation>nichts geraten</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>{accepted} + 1 = 1 token</source>
            <translation>{accepted} + 1 = 1 Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>{accepted} + 1 = {count} tokens</source>
            <translation>{accepted} + 1 = {count} Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/header.py" />
            <source>{count} guessed ahead</source>
            <translation>{count} vorausgeraten</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Back to the newest round</source>
            <translation>Zurück zur neuesten Runde</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Chips or icicle</source>
            <translation>Chips oder Eiszapfen</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Continue from a rejected guess</source>
            <translation>Von einem verworfenen Token aus weiterschreiben</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Explain this round</source>
            <translation>Diese Runde erklären</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Explain this round… (E)</source>
            <translation>Diese Runde erklären… (E)</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>From token to token</source>
            <translation>Von Token zu Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Larger or smaller</source>
            <translation>Größer oder kleiner</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Picture, animation, copy of the picture</source>
            <translation>Bild, Animation, Kopie des Bildes</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Play or pause</source>
            <translation>Abspielen oder anhalten</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Show in the answer (A)</source>
            <translation>In der Antwort zeigen (A)</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Show the round in the answer</source>
            <translation>Die Runde in der Antwort zeigen</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>The round before or after</source>
            <translation>Die Runde davor oder danach</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>The tree of round {number} cannot be shown: {reason}. The answer itself is not affected.</source>
            <translation>Der Baum von Runde {number} kann nicht gezeigt werden: {reason}. Die Antwort selbst ist nicht betroffen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>There is no round to look at yet.</source>
            <translation>Noch gibt es keine Runde anzusehen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>These rounds are a recording: there is no answer here that they belong to.</source>
            <translation>Diese Runden sind eine Aufzeichnung: Hier gibt es keine Antwort, zu der sie gehören.</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>This round is not kept any more: there was no room for it, in memory or on the disk.</source>
            <translation>Diese Runde ist nicht mehr aufbewahrt: Für sie war kein Platz, im Speicher oder auf der Platte.</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>To the root, or to the bonus</source>
            <translation>Zur Wurzel oder zum Bonus</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>Unfold guesses</source>
            <translation>Eingeklapptes aufklappen</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>not in a recording</source>
            <translation>nicht in einer Aufzeichnung</translation>
        </message>
        <message>
            <location filename="../../app/tree/panel.py" />
            <source>once the answer is written</source>
            <translation>sobald die Antwort geschrieben ist</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/branching.py" />
            <source>Continue from here: “{text}”</source>
            <translation>Von hier an weiter: „{text}“</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/chips/left_edge.py" />
            <source>The path begins 1 token to the left: drag, or press Home</source>
            <translation>Der Pfad beginnt 1 Token weiter links: Ziehen Sie, oder drücken Sie Pos1</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/chips/left_edge.py" />
            <source>The path begins {count} tokens to the left: drag, or press Home</source>
            <translation>Der Pfad beginnt {count} Token weiter links: Ziehen Sie, oder drücken Sie Pos1</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/chips/left_edge.py" />
            <source>‹ {count} more</source>
            <translation>‹ {count} weitere</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/description.py" />
            <source>Accepted: {tokens}</source>
            <translation>Angenommen: {tokens}</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/description.py" />
            <source>Arrow keys go from token to token, O unfolds what is behind one</source>
            <translation>Pfeiltasten führen von Token zu Token, O klappt auf, was hinter einem liegt</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/description.py" />
            <source>Bonus token: {token}</source>
            <translation>Bonustoken: {token}</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/description.py" />
            <source>{shown} of {count} guesses are shown, {folded} are folded</source>
            <translation>{shown} von {count} geratenen Token sind zu sehen, {folded} sind eingeklappt</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>A guess: the target has not checked it yet.</source>
            <translation>Geraten: Das Ziel hat es noch nicht geprüft.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Accepted: the target chose this token too.</source>
            <translation>Angenommen: Auch das Ziel hat dieses Token gewählt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Bonus: the target's own choice, from the same pass.</source>
            <translation>Bonus: die eigene Wahl des Ziels, aus demselben Durchlauf.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Depth</source>
            <translation>Tiefe</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Folded</source>
            <translation>Eingeklappt</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Guessed ahead, while the target checks the others: it may be of use in the next round.</source>
            <translation>Vorausgeraten, während das Zielmodell die anderen prüft: Das kann der nächsten Runde nützen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Of no use: the answer ended before it.</source>
            <translation>Ohne Nutzen: Die Antwort endete davor.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Rejected: it stands behind a token that the target did not choose.</source>
            <translation>Abgelehnt: Es steht hinter einem Token, das das Ziel nicht gewählt hat.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Rejected: the target chose {token} here.</source>
            <translation>Abgelehnt: Das Ziel hat hier {token} gewählt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>Root: the last token of the answer so far.</source>
            <translation>Wurzel: das bisher letzte Token der Antwort.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>The answer ends with it.</source>
            <translation>Die Antwort endet damit.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>The target's likeliest tokens here</source>
            <translation>Was das Ziel hier am wahrscheinlichsten findet</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>below 0.01 %</source>
            <translation>unter 0,01 %</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>{count} behind it (press O to see them)</source>
            <translation>{count} dahinter (O zeigt sie)</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>{here} here, {path} from the root</source>
            <translation>{here} hier, {path} von der Wurzel an</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>{number}nd</source>
            <translation>{number}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>{number}rd</source>
            <translation>{number}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>{number}st</source>
            <translation>{number}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>{number}th</source>
            <translation>{number}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/explanation.py" />
            <source>{probability} here, {rank} choice</source>
            <translation>{probability} hier, {rank} Wahl</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/folds.py" />
            <source>1 guess is folded here: click, or press O, to unfold it</source>
            <translation>Hier ist 1 geratenes Token eingeklappt: Ein Klick oder O klappt es auf</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/folds.py" />
            <source>{count} guesses are folded here: click, or press O, to unfold them</source>
            <translation>Hier sind {count} geratene Token eingeklappt: Ein Klick oder O klappt sie auf</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/moving/layer_strip.py" />
            <source>A pass of the target goes through all of its layers, from left to right. ▼: the layer that is computed, or waited for (hollow). ▲: layers whose weights are on their way. Full cells are kept where they are computed, half-filled ones in RAM, empty ones on the SSD.</source>
            <translation>Ein Durchlauf des Zielmodells geht durch alle seine Schichten, von links nach rechts. ▼: die Schicht, die gerechnet oder auf die gewartet wird (hohl). ▲: Schichten, deren Gewichte unterwegs sind. Volle Zellen liegen dort, wo sie gerechnet werden, halb gefüllte im RAM, leere auf der SSD.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/moving/layer_strip.py" />
            <source>Computing layer {layer} of {count}</source>
            <translation>Rechnet Schicht {layer} von {count}</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/moving/layer_strip.py" />
            <source>Layer {layer}, kept in {place}.</source>
            <translation>Schicht {layer}, Platz: {place}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/moving/layer_strip.py" />
            <source>Layers of the target</source>
            <translation>Schichten des Zielmodells</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/moving/layer_strip.py" />
            <source>Waiting for layer {layer} of {count}, from {place}</source>
            <translation>Wartet auf Schicht {layer} von {count}, aus: {place}</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/moving/layer_strip.py" />
            <source>loading {layer} from {place}</source>
            <translation>lädt {layer} aus: {place}</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>Accepted</source>
            <translation>Angenommen</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>Accepted tokens per step, mean {mean} (dashed)</source>
            <translation>Angenommene Token je Schritt, Mittel {mean} (gestrichelt)</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>Drafted</source>
            <translation>Geraten</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>Each column a step: drafted tokens outlined, accepted filled.</source>
            <translation>Jede Säule ein Schritt: geratene Token umrandet, angenommene gefüllt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>Step</source>
            <translation>Schritt</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>Step {number}: nothing drafted, 1 token</source>
            <translation>Schritt {number}: nichts geraten, 1 Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>Step {number}: {accepted} of {drafted} drafted tokens accepted, with the target's own {tokens}</source>
            <translation>Schritt {number}: {accepted} von {drafted} geratenen Token angenommen, mit dem des Zielmodells {tokens}</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>Steps of the engine</source>
            <translation>Schritte der Engine</translation>
        </message>
        <message>
            <location filename="../../app/tree/picture/steps.py" />
            <source>step {number}</source>
            <translation>Schritt {number}</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/ribbon.py" />
            <source>Each column is a round: accepted tokens, on top of them the bonus, and below the line the time that it took. The line across is the budget of its tree. Click or drag, or go with the arrow keys; Ctrl+arrow goes from answer to answer.</source>
            <translation>Jede Säule ist eine Runde: angenommene Token, darauf das Bonus-Token und unter der Linie die Zeit, die sie gebraucht hat. Die Linie quer darüber ist das Budget des Baums. Klicken oder ziehen, oder mit den Pfeiltasten gehen; Strg+Pfeil geht von Antwort zu Antwort.</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/ribbon.py" />
            <source>Round</source>
            <translation>Runde</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>1 token</source>
            <translation>1 Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>Budget {budget}, {count} guessed, {seconds}</source>
            <translation>Budget {budget}, {count} geraten, {seconds}</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>Budget {budget}, {seconds} per round, on average</source>
            <translation>Budget {budget}, {seconds} pro Runde im Mittel</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>Method: {name}</source>
            <translation>Verfahren: {name}</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>On average {tokens} tokens, {accepted} of them accepted; at most {most}</source>
            <translation>Im Mittel {tokens} Token, davon {accepted} angenommen; höchstens {most}</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>Round {number} of answer {answer}</source>
            <translation>Runde {number} von Antwort {answer}</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>Round {number} of {count}</source>
            <translation>Runde {number} von {count}</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>Rounds {first} to {last}, here in one column</source>
            <translation>Runden {first} bis {last}, hier in einer Säule</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>These rounds have not been read yet.</source>
            <translation>Diese Runden sind noch nicht gelesen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>This round has not been read yet.</source>
            <translation>Diese Runde ist noch nicht gelesen.</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>This round is not kept any more.</source>
            <translation>Diese Runde ist nicht mehr aufbewahrt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>{accepted} accepted + {bonus} bonus</source>
            <translation>{accepted} angenommen + {bonus} Bonus</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>{count} ms</source>
            <translation>{count} ms</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>{count} s</source>
            <translation>{count} s</translation>
        </message>
        <message>
            <location filename="../../app/tree/ribbon/words.py" />
            <source>{count} tokens</source>
            <translation>{count} Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>'{name}' breaks off in the middle of round {number}; the {count} before are shown.</source>
            <translation>„{name}“ bricht mitten in Runde {number} ab; die {count} davor werden gezeigt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>'{name}' is empty.</source>
            <translation>„{name}“ ist leer.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>'{name}' is larger than {size} GB.</source>
            <translation>„{name}“ ist größer als {size} GB.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>'{name}' is no recording: it is not text.</source>
            <translation>„{name}“ ist keine Aufzeichnung: Die Datei enthält keinen Text.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>1 round was saved in {name}.</source>
            <translation>Eine Runde wurde in {name} gespeichert.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>Choose a file that was saved with 'Save recording', or one that '--trace' wrote.</source>
            <translation>Wählen Sie eine Datei, die mit „Aufzeichnung speichern“ gespeichert wurde oder die „--trace“ geschrieben hat.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>Line {number} of '{name}' is longer than {size} MB.</source>
            <translation>Zeile {number} von „{name}“ ist länger als {size} MB.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>Line {number} of '{name}' is no round: {reason}.</source>
            <translation>Zeile {number} von „{name}“ ist keine Runde: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>The recording could not be saved: {reason}.</source>
            <translation>Die Aufzeichnung konnte nicht gespeichert werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>The recording was not saved: other rounds are shown now.</source>
            <translation>Die Aufzeichnung wurde nicht gespeichert: Jetzt werden andere Runden gezeigt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>The rest was never written.</source>
            <translation>Der Rest wurde nie geschrieben.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>it has more than {count} nodes, or none</source>
            <translation>der Baum hat mehr als {count} Knoten oder keine</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>it is not an object</source>
            <translation>sie ist kein Objekt</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>there is no {key}</source>
            <translation>{key} fehlt</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>{count} are not kept any more.</source>
            <translation>{count} sind nicht mehr aufbewahrt.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/recording.py" />
            <source>{count} rounds were saved in {name}.</source>
            <translation>{count} Runden wurden in {name} gespeichert.</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/snapshot.py" />
            <source>a node stands before its parent</source>
            <translation>ein Knoten steht vor seinem Elternknoten</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/snapshot.py" />
            <source>a probability is not a number</source>
            <translation>eine Wahrscheinlichkeit ist keine Zahl</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/snapshot.py" />
            <source>it has no nodes, not even the root</source>
            <translation>der Baum hat keine Knoten, nicht einmal die Wurzel</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/snapshot.py" />
            <source>it has {tokens} tokens, {parents} parents, {probabilities} probabilities and {texts} texts</source>
            <translation>der Baum hat {tokens} Token, {parents} Eltern, {probabilities} Wahrscheinlichkeiten und {texts} Texte</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/snapshot.py" />
            <source>the accepted path does not begin at the root</source>
            <translation>der angenommene Pfad beginnt nicht an der Wurzel</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/snapshot.py" />
            <source>the accepted path does not lead from node {parent} to node {node}</source>
            <translation>der angenommene Pfad führt nicht von Knoten {parent} zu Knoten {node}</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/text.py" />
            <source>1 accepted = 1 token</source>
            <translation>1 angenommen = 1 Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/text.py" />
            <source>Round {number}: {count} nodes, {accepted} accepted</source>
            <translation>Runde {number}: {count} Knoten, {accepted} angenommen</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/text.py" />
            <source>{accepted} accepted + 1 bonus = 1 token</source>
            <translation>{accepted} angenommen + 1 Bonus = 1 Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/text.py" />
            <source>{accepted} accepted + 1 bonus = {count} tokens</source>
            <translation>{accepted} angenommen + 1 Bonus = {count} Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/rounds/text.py" />
            <source>{accepted} accepted = {count} tokens</source>
            <translation>{accepted} angenommen = {count} Token</translation>
        </message>
        <message>
            <location filename="../../app/tree/widgets.py" />
            <source>The speculation tree appears here while an answer is written.</source>
            <translation>Der Spekulationsbaum erscheint hier, während eine Antwort geschrieben wird.</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;About Coppice</source>
            <translation>&amp;Über Coppice</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Attach files or pictures…</source>
            <translation>&amp;Dateien oder Bilder anhängen…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Chats</source>
            <translation>&amp;Chats</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Copy answer</source>
            <translation>Antwort &amp;kopieren</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Delete chat</source>
            <translation>Chat &amp;löschen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Edit</source>
            <translation>&amp;Bearbeiten</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Edit last question</source>
            <translation>Letzte &amp;Frage bearbeiten</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Export chat…</source>
            <translation>Chat &amp;exportieren…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;File</source>
            <translation>&amp;Datei</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Find in this chat</source>
            <translation>In diesem C&amp;hat suchen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Full screen</source>
            <translation>&amp;Vollbild</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Generation settings</source>
            <translation>&amp;Antworteinstellungen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Help</source>
            <translation>&amp;Hilfe</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Import chats…</source>
            <translation>Chats &amp;importieren…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Keyboard shortcuts</source>
            <translation>&amp;Tastenkürzel</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Local server…</source>
            <translation>Lo&amp;kaler Server…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Model</source>
            <translation>&amp;Modell</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Models…</source>
            <translation>&amp;Modelle…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;New chat</source>
            <translation>&amp;Neuer Chat</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Next pane</source>
            <translation>&amp;Nächster Bereich</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Pin or unpin chat</source>
            <translation>Chat an&amp;heften oder lösen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Preferences…</source>
            <translation>&amp;Einstellungen…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Quit</source>
            <translation>&amp;Beenden</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Regenerate answer</source>
            <translation>Ne&amp;u antworten</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Restart engine</source>
            <translation>&amp;Rechenprozess neu starten</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Smaller text</source>
            <translation>&amp;Kleinere Schrift</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Stop answering</source>
            <translation>Ant&amp;wort anhalten</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Tools of this chat…</source>
            <translation>&amp;Werkzeuge dieses Chats…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;View</source>
            <translation>&amp;Ansicht</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>&amp;Write a message</source>
            <translation>Nach&amp;richt schreiben</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>C&amp;ontinue answer</source>
            <translation>Antw&amp;ort fortsetzen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Clo&amp;se window</source>
            <translation>Fenster &amp;schließen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Co&amp;mpare answers…</source>
            <translation>Antworten &amp;vergleichen…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Command &amp;palette…</source>
            <translation>Befehls&amp;palette…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Copy &amp;diagnostics</source>
            <translation>&amp;Diagnose kopieren</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Copy con&amp;versation</source>
            <translation>Gespräch ko&amp;pieren</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Copy p&amp;icture of the tree</source>
            <translation>Bi&amp;ld des Baums kopieren</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>D&amp;uplicate chat</source>
            <translation>Chat d&amp;uplizieren</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>E&amp;xport all chats…</source>
            <translation>Alle Chats e&amp;xportieren…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Exp&amp;ort animation of the answer…</source>
            <translation>Anima&amp;tion der Antwort exportieren…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Export picture of the &amp;tree…</source>
            <translation>Bil&amp;d des Baums exportieren…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Fi&amp;nd next</source>
            <translation>Nä&amp;chster Treffer</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Fin&amp;d previous</source>
            <translation>Voriger &amp;Treffer</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Import folder of c&amp;hats…</source>
            <translation>Ordner mit Chats im&amp;portieren…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Larger te&amp;xt</source>
            <translation>Grö&amp;ßere Schrift</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Mo&amp;ve chat to folder…</source>
            <translation>Chat in Ordner &amp;verschieben…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>N&amp;ormal text size</source>
            <translation>Nor&amp;male Schriftgröße</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Ne&amp;xt version</source>
            <translation>&amp;Nächste Fassung</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>New &amp;window</source>
            <translation>Neues &amp;Fenster</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Open &amp;chat in new window</source>
            <translation>&amp;Chat in neuem Fenster öffnen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Open &amp;log folder</source>
            <translation>Protokoll&amp;ordner öffnen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Pre&amp;vious pane</source>
            <translation>V&amp;origer Bereich</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Previo&amp;us version</source>
            <translation>Vor&amp;ige Fassung</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Recentl&amp;y deleted chats…</source>
            <translation>Kür&amp;zlich gelöschte Chats…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Ren&amp;ame chat</source>
            <translation>Ch&amp;at umbenennen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Save as &amp;preset…</source>
            <translation>Als Vorla&amp;ge speichern…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Searc&amp;h chats</source>
            <translation>Chats &amp;suchen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Show the &amp;tour</source>
            <translation>Den &amp;Rundgang zeigen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Spec&amp;ulate on or off</source>
            <translation>Spekulation &amp;ein oder aus</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Speculation &amp;tree</source>
            <translation>Spekulations&amp;baum</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Star&amp;t the answer with…</source>
            <translation>Antwort be&amp;ginnen mit…</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>T&amp;int guessed tokens</source>
            <translation>Er&amp;ratene Token färben</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Te&amp;lemetry</source>
            <translation>&amp;Telemetrie</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>This chat is empty.</source>
            <translation>Dieser Chat ist leer.</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Tint by pro&amp;bability</source>
            <translation>Nach &amp;Wahrscheinlichkeit tönen</translation>
        </message>
        <message>
            <location filename="../../app/ui/actions.py" />
            <source>Unload model &amp;from memory</source>
            <translation>M&amp;odell aus dem Speicher nehmen</translation>
        </message>
        <message>
            <location filename="../../app/ui/file_dialogs.py" />
            <source>{name} is there already. Do you want to replace it?</source>
            <translation>{name} gibt es schon. Soll die Datei ersetzt werden?</translation>
        </message>
        <message>
            <location filename="../../app/ui/jobs.py" />
            <source>Details are in the application's log.</source>
            <translation>Genaueres steht im Protokoll der Anwendung.</translation>
        </message>
        <message>
            <location filename="../../app/ui/jobs.py" />
            <source>That did not work: {reason}</source>
            <translation>Das ging nicht: {reason}</translation>
        </message>
        <message>
            <location filename="../../app/ui/notices.py" />
            <source>Copy diagnostics</source>
            <translation>Diagnose kopieren</translation>
        </message>
        <message>
            <location filename="../../app/ui/notices.py" />
            <source>Dismiss</source>
            <translation>Ausblenden</translation>
        </message>
        <message>
            <location filename="../../app/ui/notices.py" />
            <source>Dismiss this notice</source>
            <translation>Diesen Hinweis ausblenden</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>Check that the file may be read.</source>
            <translation>Prüfen Sie, ob die Datei gelesen werden darf.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>Choose a newer file of the model, or update Coppice.</source>
            <translation>Wählen Sie eine neuere Datei des Modells, oder aktualisieren Sie Coppice.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>Choose the little-endian version of the model.</source>
            <translation>Wählen Sie die Little-Endian-Fassung des Modells.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>It is damaged or was not downloaded completely: download it again.</source>
            <translation>Sie ist beschädigt oder nicht ganz heruntergeladen: Laden Sie sie noch einmal herunter.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>bytes of text</source>
            <translation>Bytes Text</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>dimensions of a tensor</source>
            <translation>Dimensionen eines Tensors</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>entries</source>
            <translation>Einträge</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>tensors</source>
            <translation>Tensoren</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} asks for an impossible alignment.</source>
            <translation>{file} verlangt eine unmögliche Ausrichtung.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} claims {count} {things}.</source>
            <translation>{file} behauptet {count} {things}.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} ends before its header does.</source>
            <translation>{file} endet vor dem Ende der Kopfdaten.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} has a header of more than {size} MB.</source>
            <translation>{file} hat Kopfdaten von mehr als {size} MB.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} has a list that cannot be read.</source>
            <translation>{file} enthält eine Liste, die nicht gelesen werden kann.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} has more than {size} MB of text.</source>
            <translation>{file} enthält mehr als {size} MB Text.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} has text that is not UTF-8.</source>
            <translation>{file} enthält Text, der kein UTF-8 ist.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} has the entry {entry} of an unknown type.</source>
            <translation>{file} enthält den Eintrag {entry} von unbekanntem Typ.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} has version {version} of GGUF, which is not read.</source>
            <translation>{file} hat Version {version} von GGUF, die nicht gelesen wird.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} has {name} twice.</source>
            <translation>{file} enthält {name} doppelt.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} is not a GGUF file.</source>
            <translation>{file} ist keine GGUF-Datei.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} lists more than {count} strings.</source>
            <translation>{file} zählt mehr als {count} Zeichenketten auf.</translation>
        </message>
        <message>
            <location filename="../../engine/gguf_header.py" />
            <source>{file} was written for machines of another byte order.</source>
            <translation>{file} wurde für Rechner mit anderer Bytereihenfolge geschrieben.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/compiling/needed.py" />
            <source>Compiling for this processor (only the first time)</source>
            <translation>Übersetzt für diesen Prozessor (nur beim ersten Mal)</translation>
        </message>
        <message>
            <location filename="../../engine/loading/kept/texts_on_disk.py" />
            <source>There is no room to keep on disk what this conversation has read.</source>
            <translation>Auf der Platte ist kein Platz, um aufzubewahren, was dieser Chat gelesen hat.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/kept/texts_on_disk.py" />
            <source>What conversations have read cannot be kept on disk: {reason}.</source>
            <translation>Gelesene Chats können nicht auf der Platte aufbewahrt werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/kept/texts_on_disk.py" />
            <source>What was kept of an earlier conversation is damaged: it was removed, and is read anew.</source>
            <translation>Das Aufbewahrte eines früheren Chats ist beschädigt: Es wurde entfernt, der Chat wird neu gelesen.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/kept/texts_on_disk.py" />
            <source>{file} is kept of another model, or by another version, and is not used.</source>
            <translation>{file} stammt von einem anderen Modell oder einer anderen Version und wird nicht verwendet.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>Check the path.</source>
            <translation>Prüfen Sie den Pfad.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>Choose a draft.</source>
            <translation>Wählen Sie ein Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>It is learnt anew.</source>
            <translation>Es wird neu gelernt.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>Measure it with `bench --calibrate`.</source>
            <translation>Messen Sie sie mit `bench --calibrate`.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>No such file or directory</source>
            <translation>Datei oder Ordner gibt es nicht</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>The acceptance of this pair was never measured with these settings.</source>
            <translation>Wie viel bei diesem Paar angenommen wird, wurde mit diesen Einstellungen nie gemessen.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>What this pair taught before cannot be read: {file}: {reason}.</source>
            <translation>Was dieses Paar früher lehrte, kann nicht gelesen werden: {file}: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>What this pair taught before is not used: {file} is damaged.</source>
            <translation>Was dieses Paar früher gelehrt hat, wird nicht benutzt: {file} ist beschädigt.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>What this pair taught before is not used: {file} {reason}.</source>
            <translation>Was dieses Paar früher lehrte, wird nicht verwendet: {file} {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>Without a draft model there is nothing to measure.</source>
            <translation>Ohne Entwurfsmodell gibt es nichts zu messen.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>is about another pair, place or way of sampling</source>
            <translation>handelt von einem anderen Paar, Ort oder Ziehen</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>was written by a newer version, and stays as it is</source>
            <translation>wurde von einer neueren Fassung geschrieben und bleibt, wie es ist</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>was written by an older version</source>
            <translation>wurde von einer älteren Fassung geschrieben</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>{file} holds no measured acceptance.</source>
            <translation>{file} enthält keine gemessene Annahme.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>{file} is damaged: it is not valid JSON.</source>
            <translation>{file} ist beschädigt: Das ist kein gültiges JSON.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>{file} is damaged: what it holds are no measurements.</source>
            <translation>{file} ist beschädigt: Was darin steht, sind keine Messungen.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/learned.py" />
            <source>{file} was measured with another pair, or before its files changed.</source>
            <translation>{file} wurde mit einem anderen Paar gemessen, oder bevor sich dessen Dateien änderten.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>Load the model again.</source>
            <translation>Laden Sie das Modell noch einmal.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>Loading {name}</source>
            <translation>Lädt {name}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>Pictures and sound are not read.</source>
            <translation>Bilder und Ton werden nicht gelesen.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>Sequoia learns it while it writes.</source>
            <translation>Sequoia lernt sie beim Schreiben.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>The files of '{name}' were changed while they were loaded.</source>
            <translation>Die Dateien von „{name}“ wurden geändert, während sie geladen wurden.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>The others are copied once more on their way to the GPU, at up to {rate}.</source>
            <translation>Die anderen werden auf dem Weg zur GPU noch einmal kopiert, mit höchstens {rate}.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>The others are copied once more on their way to the GPU, which is slower.</source>
            <translation>Die anderen werden auf dem Weg zur GPU noch einmal kopiert, was langsamer ist.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>The system pinned {pinned} of the {wanted} of RAM that weights stream from.</source>
            <translation>Vom RAM, aus dem Gewichte strömen, hat das System {pinned} von {wanted} fest zugewiesen.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>the draft</source>
            <translation>das Entwurfsmodell</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loaded_pair.py" />
            <source>the target</source>
            <translation>das Ziel</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loading.py" />
            <source>'{name}' does not fit here.</source>
            <translation>„{name}“ passt hier nicht.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loading.py" />
            <source>Choose smaller weights (nf4), a shorter context, or raise the limits.</source>
            <translation>Wählen Sie kleinere Gewichte (nf4) oder einen kürzeren Kontext, oder heben Sie die Grenzen an.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loading.py" />
            <source>Copying {name} in 4 bits</source>
            <translation>Kopiert {name} in 4 Bit</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loading.py" />
            <source>Measuring this machine</source>
            <translation>Vermisst diesen Rechner</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loading.py" />
            <source>Preparing {name} in {weights}</source>
            <translation>Bereitet {name} in {weights} vor</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loading.py" />
            <source>Preparing {name} in {weights}, {seconds} s left</source>
            <translation>Bereitet {name} in {weights} vor, noch {seconds} s</translation>
        </message>
        <message>
            <location filename="../../engine/loading/loading.py" />
            <source>Reading {name}</source>
            <translation>Liest {name}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/memory_limits.py" />
            <source>{gib} of GPU memory</source>
            <translation>{gib} Grafikspeicher</translation>
        </message>
        <message>
            <location filename="../../engine/loading/memory_limits.py" />
            <source>{gib} of RAM</source>
            <translation>{gib} RAM</translation>
        </message>
        <message>
            <location filename="../../engine/loading/memory_limits.py" />
            <source>{gpu} and {ram}</source>
            <translation>{gpu} und {ram}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/oom_retry.py" />
            <source>'{stage}', step {done} of {count}</source>
            <translation>„{stage}“, Schritt {done} von {count}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/oom_retry.py" />
            <source>Choose a smaller tree or a shorter context, or load the model with less memory for its layers.</source>
            <translation>Wählen Sie einen kleineren Baum oder einen kürzeren Kontext, oder laden Sie das Modell mit weniger Speicher für seine Schichten.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/oom_retry.py" />
            <source>Memory ran out with this pair before: planning with {limits}</source>
            <translation>Mit diesem Paar reichte der Speicher schon einmal nicht: Geplant wird mit {limits}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/oom_retry.py" />
            <source>The placement was chosen by hand and is not changed by itself: choose place 'auto', without force.</source>
            <translation>Die Verteilung wurde von Hand gewählt und ändert sich nicht von selbst: Wählen Sie den Ort „auto“, ohne Zwang.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/oom_retry.py" />
            <source>Trying again: {reason}</source>
            <translation>Neuer Versuch: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/oom_retry.py" />
            <source>a pass of {model} over {rows} tokens</source>
            <translation>ein Durchlauf über {rows} Token (Modell: {model})</translation>
        </message>
        <message>
            <location filename="../../engine/loading/oom_retry.py" />
            <source>loading</source>
            <translation>beim Laden</translation>
        </message>
        <message>
            <location filename="../../engine/loading/out_of_memory.py" />
            <source>Close other programs, or choose a smaller model, smaller weights, a shorter context or a smaller tree.</source>
            <translation>Schließen Sie andere Programme, oder wählen Sie ein kleineres Modell, kleinere Gewichte, einen kürzeren Kontext oder einen kleineren Baum.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/out_of_memory.py" />
            <source>Memory ran out during {work}: {wanted}; {free}.</source>
            <translation>Der Speicher reichte nicht ({work}): {wanted}; {free}.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/out_of_memory.py" />
            <source>more {kind} was asked for</source>
            <translation>verlangt: mehr {kind}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/out_of_memory.py" />
            <source>{gib} of {kind} were asked for</source>
            <translation>verlangt: {gib} {kind}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/out_of_memory.py" />
            <source>{gpu} of GPU memory and {ram} of RAM were free</source>
            <translation>frei: {gpu} Grafikspeicher und {ram} RAM</translation>
        </message>
        <message>
            <location filename="../../engine/loading/out_of_memory.py" />
            <source>{ram} of RAM were free</source>
            <translation>frei: {ram} RAM</translation>
        </message>
        <message>
            <location filename="../../engine/loading/pair.py" />
            <source>'{name}' is a head that drafts for a larger model.</source>
            <translation>„{name}“ ist ein Kopf, der für ein größeres Modell vorausrät.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/pair.py" />
            <source>'{name}' is a head, and is not merged with the target's own.</source>
            <translation>„{name}“ ist ein Kopf und wird nicht mit den eigenen des Zielmodells vereint.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/pair.py" />
            <source>Choose a draft of the same family, or no draft.</source>
            <translation>Wählen Sie ein Entwurfsmodell derselben Familie oder keines.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/pair.py" />
            <source>Choose one of them, or a draft model.</source>
            <translation>Wählen Sie eines davon oder ein Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/pair.py" />
            <source>Choose that model as the target, and this as its draft.</source>
            <translation>Wählen Sie jenes Modell als Zielmodell, und diesen Kopf als Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/pair.py" />
            <source>The draft '{draft}' cannot be used: {reason}</source>
            <translation>Das Entwurfsmodell „{draft}“ ist nicht verwendbar: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/pair.py" />
            <source>The draft '{draft}' has another tokenizer than the target '{target}', and only {percent} % of the tokens of an ordinary text are in both.</source>
            <translation>Das Entwurfsmodell „{draft}“ hat einen anderen Tokenizer als das Zielmodell „{target}“, und nur {percent} % der Token eines gewöhnlichen Textes haben beide.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/pair.py" />
            <source>The draft proposes nothing behind {count} tokens, as it reads no more.</source>
            <translation>Hinter {count} Token schlägt das Entwurfsmodell nichts mehr vor, da es nicht weiter liest.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>'{name}' reads at most {count} tokens, not {asked}.</source>
            <translation>„{name}“ liest höchstens {count} Token, nicht {asked}.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>A context of {count} tokens would fit.</source>
            <translation>Ein Kontext von {count} Tokens hätte Platz.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>All layers of '{name}' stay in memory: a copy of them in 4 bits is no faster draft.</source>
            <translation>Alle Schichten von „{name}“ bleiben im Speicher: Eine Kopie in 4 Bit ist kein schnelleres Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>Choose a shorter context.</source>
            <translation>Wählen Sie einen kürzeren Kontext.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>Choose another draft, or none.</source>
            <translation>Wählen Sie ein anderes Entwurfsmodell oder keines.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>Choose other weights, or another draft.</source>
            <translation>Wählen Sie andere Gewichte oder ein anderes Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>Keys and values are kept in 8 bits, each within 1/127 of the largest beside it.</source>
            <translation>Schlüssel und Werte werden in 8 Bit gehalten, jeder bis auf 1/127 des größten neben ihm genau.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>The context is {count} tokens long, as no more fits.</source>
            <translation>Der Kontext ist {count} Tokens lang, mehr hat nicht Platz.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/planning.py" />
            <source>The layers of '{name}' are kept in 4 bits: a copy of them in 4 bits is no faster draft.</source>
            <translation>Die Schichten von „{name}“ liegen in 4 Bit vor: Eine Kopie in 4 Bit ist kein schnelleres Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/preparation.py" />
            <source>Choose one of {names}.</source>
            <translation>Wählen Sie eines von {names}.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/preparation.py" />
            <source>Nothing is rounded to 8 bits: this is for models in GGUF's blocks of whole numbers, in float32 on a processor with AVX2.</source>
            <translation>Es wird nichts auf 8 Bit gerundet: Das geht bei Modellen in GGUF-Blöcken aus ganzen Zahlen, in float32 auf einem Prozessor mit AVX2.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/preparation.py" />
            <source>Weights '{weights}' cannot be prepared.</source>
            <translation>Gewichte „{weights}“ können nicht vorbereitet werden.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/preparation.py" />
            <source>What quantised weights are multiplied with is rounded to 8 bits: the text can differ where two tokens are nearly equally likely.</source>
            <translation>Womit quantisierte Gewichte multipliziert werden, wird auf 8 Bit gerundet: Der Text kann abweichen, wo zwei Token fast gleich wahrscheinlich sind.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/probing.py" />
            <source>'{name}' cannot be run: {reason}</source>
            <translation>„{name}“ kann nicht ausgeführt werden: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/loading/probing.py" />
            <source>Its config.json asks for what its network cannot compute: get the model again from where it was published, or choose another one.</source>
            <translation>Seine config.json verlangt etwas, das sein Netz nicht rechnen kann: Laden Sie das Modell von dort neu, wo es veröffentlicht wurde, oder wählen Sie ein anderes.</translation>
        </message>
        <message>
            <location filename="../../engine/loading/probing.py" />
            <source>Trying whether '{name}' holds a token tree: no test has shown it of the family {family}</source>
            <translation>Ob „{name}“ einen Token-Baum halten kann, wird ausprobiert: Für die Familie {family} hat es noch kein Test gezeigt</translation>
        </message>
        <message>
            <location filename="../../engine/loading/probing.py" />
            <source>its network fails on one, with the words: {words}</source>
            <translation>sein Netz scheitert an einem, mit den Worten: {words}</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>'{name}' ({kind}) is not a text-generation model.</source>
            <translation>„{name}“ ({kind}) ist kein Modell, das Text schreibt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>'{name}' cannot be loaded: {reason}</source>
            <translation>„{name}“ kann nicht geladen werden: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>'{name}' has the architecture '{kind}', which this version of transformers does not know.</source>
            <translation>„{name}“ hat die Architektur „{kind}“, die diese Fassung von transformers nicht kennt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>'{name}' has weights for more layers than its config.json says: {tensor}.</source>
            <translation>„{name}“ hat Gewichte für mehr Schichten, als config.json sagt: {tensor}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>'{name}' has weights of another shape than its config.json says: {tensor}.</source>
            <translation>„{name}“ hat Gewichte anderer Form, als config.json sagt: {tensor}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>'{name}' lacks the weights {tensor}.</source>
            <translation>„{name}“ fehlen die Gewichte {tensor}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>Check the folder, or download the model again.</source>
            <translation>Prüfen Sie den Ordner, oder laden Sie das Modell noch einmal herunter.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>Choose another model, or update Coppice.</source>
            <translation>Wählen Sie ein anderes Modell, oder erneuern Sie Coppice.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>Models that bring their own code are not run.</source>
            <translation>Modelle, die eigenen Code mitbringen, werden nicht ausgeführt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>The config.json of '{name}' asks for a network of more than {count} parts.</source>
            <translation>Die config.json von „{name}“ verlangt ein Netz aus mehr als {count} Teilen.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>config.json and the weights do not belong together; get both again.</source>
            <translation>config.json und die Gewichte gehören nicht zusammen; holen Sie beides neu.</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>it is an encoder-decoder model</source>
            <translation>es ist ein Encoder-Decoder-Modell</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>it keeps a recurrent state of a kind that is not known</source>
            <translation>es führt einen fortlaufenden Zustand von unbekannter Art</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>its tokens see those behind them</source>
            <translation>seine Tokens sehen, was hinter ihnen steht</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>one pass over a tree differs from its paths alone</source>
            <translation>ein Durchlauf über einen Baum ergibt etwas anderes als seine Pfade allein</translation>
        </message>
        <message>
            <location filename="../../engine/model/architecture.py" />
            <source>{tensor} and {count} more</source>
            <translation>{tensor} und {count} weitere</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>Choose a version of the model in the safetensors format.</source>
            <translation>Wählen Sie eine Fassung des Modells im safetensors-Format.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>Do not use this model.</source>
            <translation>Verwenden Sie dieses Modell nicht.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>Download the model again.</source>
            <translation>Laden Sie das Modell noch einmal herunter.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>Fetch the model's facts again.</source>
            <translation>Holen Sie die Angaben zum Modell noch einmal.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>Give the folder of a model in the transformers format.</source>
            <translation>Geben Sie den Ordner eines Modells im transformers-Format an.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>Give the path of one of the files.</source>
            <translation>Geben Sie den Pfad einer der Dateien an.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>Merge it into its base model first.</source>
            <translation>Verschmelzen Sie ihn erst mit seinem Grundmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>The weight files in {folder} hold no tensors.</source>
            <translation>Die Gewichtsdateien in {folder} enthalten keine Tensoren.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{file} has a weight_map that does not name files.</source>
            <translation>{file} hat eine weight_map, die keine Dateien nennt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{file} has no weight_map.</source>
            <translation>{file} hat keine weight_map.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{file} is damaged.</source>
            <translation>{file} ist beschädigt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{file} lacks the tensor {tensor} of the index.</source>
            <translation>In {file} fehlt der Tensor {tensor} des Verzeichnisses.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{file} lists more than {count} tensors.</source>
            <translation>{file} führt mehr als {count} Tensoren auf.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{file} names a file outside its folder, {other}.</source>
            <translation>{file} nennt eine Datei außerhalb des Ordners, {other}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{file} names no model_type.</source>
            <translation>{file} nennt keinen model_type.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{file} names {other}, but only safetensors are opened.</source>
            <translation>{file} nennt {other}, aber nur safetensors werden geöffnet.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{folder} holds an adapter, not a whole model.</source>
            <translation>{folder} enthält einen Adapter, kein ganzes Modell.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{folder} holds no facts of this version of Coppice.</source>
            <translation>{folder} enthält keine Angaben dieser Fassung von Coppice.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{folder} holds no weights: {file} is missing.</source>
            <translation>{folder} enthält keine Gewichte: {file} fehlt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{folder} holds no {file}.</source>
            <translation>{folder} enthält keine Datei {file}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{folder} holds weights in a format that can run code; only safetensors are opened.</source>
            <translation>{folder} enthält Gewichte in einem Format, das Code ausführen kann; nur safetensors werden geöffnet.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{folder} holds {count} GGUF models, such as {file}.</source>
            <translation>{folder} enthält {count} GGUF-Modelle, zum Beispiel {file}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/checkpoint.py" />
            <source>{missing} of {all} weight files are missing in {folder}, first {file}.</source>
            <translation>{missing} von {all} Gewichtsdateien fehlen in {folder}, zuerst {file}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/decoding/grids.py" />
            <source>This transformers ({version}) has no tables of GGUF's types of one to three bits.</source>
            <translation>Dieses transformers ({version}) hat keine Tabellen für GGUFs Typen mit einem bis drei Bit.</translation>
        </message>
        <message>
            <location filename="../../engine/model/decoding/grids.py" />
            <source>Update transformers, or choose a model in another type.</source>
            <translation>Aktualisieren Sie transformers, oder wählen Sie ein Modell in einem anderen Typ.</translation>
        </message>
        <message>
            <location filename="../../engine/model/device.py" />
            <source>Choose device 'cpu', or install an NVIDIA driver and a CUDA build of torch.</source>
            <translation>Wählen Sie das Gerät „cpu“, oder installieren Sie einen Treiber von NVIDIA und torch für CUDA.</translation>
        </message>
        <message>
            <location filename="../../engine/model/device.py" />
            <source>There is no CUDA device that torch can use.</source>
            <translation>Es gibt kein CUDA-Gerät, das torch benutzen kann.</translation>
        </message>
        <message>
            <location filename="../../engine/model/facts.py" />
            <source>has not as many bytes as its shape asks for</source>
            <translation>hat nicht so viele Bytes, wie seine Form verlangt</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/hashed_tables.py" />
            <source>'{name}' looks n-grams up in rows that their table does not have.</source>
            <translation>'{name}' sucht N-Gramme in Zeilen, die ihre Tabelle nicht hat.</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/probe.py" />
            <source>'{name}' computes logits that are not finite numbers.</source>
            <translation>„{name}“ berechnet Logits, die keine endlichen Zahlen sind.</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/probe.py" />
            <source>Its weights are damaged, or too large for the chosen number type: try --weights bfloat16 or float32.</source>
            <translation>Die Gewichte sind beschädigt oder zu groß für den gewählten Zahlentyp: --weights bfloat16 oder float32 versuchen.</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/refused_families.py" />
            <source>it plans movements, and writes no text</source>
            <translation>es plant Bewegungen und schreibt keinen Text</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/refused_families.py" />
            <source>it reads the keys and values of the model that it drafts for, and cannot run alone</source>
            <translation>es liest die Schlüssel und Werte des Modells, für das es entwirft, und kann nicht allein laufen</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/refused_families.py" />
            <source>it runs the same layers several times for every token</source>
            <translation>es durchläuft dieselben Schichten für jedes Token mehrmals</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/refused_families.py" />
            <source>it writes bytes in patches, whose bounds follow from all of the text</source>
            <translation>es schreibt Bytes in Abschnitten, deren Grenzen sich aus dem ganzen Text ergeben</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/refused_families.py" />
            <source>its layers share weights, and none can be brought without the others</source>
            <translation>seine Schichten teilen sich Gewichte, und keine kann ohne die anderen geholt werden</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/refused_families.py" />
            <source>its layers with attention see a window that is not told of them</source>
            <translation>seine Schichten mit Attention sehen ein Fenster, das von ihnen nicht gesagt wird</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/refused_families.py" />
            <source>its positions are biases, which branches do not have</source>
            <translation>seine Positionen sind Verschiebungen, die es für Zweige nicht gibt</translation>
        </message>
        <message>
            <location filename="../../engine/model/families/refused_families.py" />
            <source>its router mixes the tokens of a pass</source>
            <translation>sein Router vermischt die Tokens eines Durchlaufs</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/awq.py" />
            <source>has {columns} columns in groups of {group}</source>
            <translation>hat {columns} Spalten in Gruppen zu {group}</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/awq.py" />
            <source>is no matrix of 4 bits</source>
            <translation>ist keine Matrix in 4 Bit</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/bitsandbytes.py" />
            <source>does not say its shape</source>
            <translation>nennt seine Form nicht</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/bitsandbytes.py" />
            <source>is no matrix of 8 bits</source>
            <translation>ist keine Matrix in 8 Bit</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/compressed_tensors.py" />
            <source>has no scales</source>
            <translation>hat keine Skalen</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/compressed_tensors.py" />
            <source>has scales of the shape {scales} for {shape}</source>
            <translation>hat Skalierungsfaktoren der Form {scales} für {shape}</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/faults.py" />
            <source>'{name}' has the weights {tensor}, which are not known.</source>
            <translation>„{name}“ enthält die Gewichte {tensor}, die nicht bekannt sind.</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/faults.py" />
            <source>Choose another version of the model, or update Coppice.</source>
            <translation>Wählen Sie eine andere Fassung des Modells, oder aktualisieren Sie Coppice.</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/faults.py" />
            <source>Choose its original version in 16 bits; Coppice can quantise that itself.</source>
            <translation>Wählen Sie die ursprüngliche Fassung in 16 Bit; Coppice kann sie selbst quantisieren.</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/faults.py" />
            <source>The checkpoint is damaged or was made by a program that is not known: get it again, or choose another.</source>
            <translation>Der Checkpoint ist beschädigt oder stammt von einem unbekannten Programm: Holen Sie ihn noch einmal, oder wählen Sie einen anderen.</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/faults.py" />
            <source>The packed weight {tensor} of '{name}' {fault}.</source>
            <translation>Das gepackte Gewicht {tensor} von „{name}“ {fault}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/faults.py" />
            <source>The weights of '{name}' are quantised already, by {method}, which cannot be read.</source>
            <translation>Die Gewichte von „{name}“ sind schon quantisiert, mit {method}, was nicht gelesen werden kann.</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/stored.py" />
            <source>has numbers of type {kind} and the shape {shape}</source>
            <translation>hat Zahlen des Typs {kind} und die Form {shape}</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/stored.py" />
            <source>is missing</source>
            <translation>fehlt</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/table.py" />
            <source>claims more numbers than its bytes can hold</source>
            <translation>nennt mehr Zahlen, als seine Bytes enthalten können</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/table.py" />
            <source>holds no numbers</source>
            <translation>enthält keine Zahlen</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/table.py" />
            <source>is stored twice</source>
            <translation>ist doppelt gespeichert</translation>
        </message>
        <message>
            <location filename="../../engine/model/formats/table.py" />
            <source>shares its bytes with another one</source>
            <translation>teilt seine Bytes mit einem anderen</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/config.py" />
            <source>'{name}' has the architecture {kind}, which is not read from GGUF files.</source>
            <translation>„{name}“ hat die Architektur {kind}, die nicht aus GGUF-Dateien gelesen wird.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/config.py" />
            <source>Choose a version of the model in the safetensors format, or another model.</source>
            <translation>Wählen Sie eine Fassung des Modells im safetensors-Format oder ein anderes Modell.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/contents.py" />
            <source>'{name}' has the weights {tensor} twice.</source>
            <translation>„{name}“ enthält die Gewichte {tensor} doppelt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/contents.py" />
            <source>'{name}' has weights of an impossible shape: {tensor}.</source>
            <translation>„{name}“ enthält Gewichte von unmöglicher Form: {tensor}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>Choose another version of the model.</source>
            <translation>Wählen Sie eine andere Fassung des Modells.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>Download it again.</source>
            <translation>Laden Sie sie noch einmal herunter.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>Give the files back their names.</source>
            <translation>Geben Sie den Dateien ihre Namen zurück.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>The files of {file} do not hold the tensors that the first one names.</source>
            <translation>Die Dateien von {file} enthalten nicht die Tensoren, die die erste nennt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>{file} gives its tensor {tensor} a place that does not fit its shape.</source>
            <translation>{file} gibt ihrem Tensor {tensor} einen Platz, der nicht zu seiner Form passt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>{file} holds its tensor {tensor} in the format {number}, which cannot be read.</source>
            <translation>{file} enthält den Tensor {tensor} im Format {number}, das nicht gelesen werden kann.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>{file} holds no tensors.</source>
            <translation>{file} enthält keine Tensoren.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>{file} is called like a part of a model that cannot be.</source>
            <translation>{file} heißt wie ein Teil eines Modells, das es nicht geben kann.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>{file} is cut off: {there} of {all} bytes are there.</source>
            <translation>{file} ist abgeschnitten: {there} von {all} Bytes sind da.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/header.py" />
            <source>{file} is not the part of a model that its name says.</source>
            <translation>{file} ist nicht der Teil eines Modells, den der Name nennt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/pictures/contents.py" />
            <source>'{name}' reads no pictures: {reason}.</source>
            <translation>„{name}“ liest keine Bilder: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/pictures/contents.py" />
            <source>Leave the pictures out, or choose a model that reads them.</source>
            <translation>Lassen Sie die Bilder weg, oder wählen Sie ein Modell, das sie liest.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/pictures/contents.py" />
            <source>its encoder is of the kind {kind}, which is not read</source>
            <translation>sein Bildencoder ist von der Art {kind}, die nicht gelesen wird</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/pictures/contents.py" />
            <source>its vocabulary has no {token}</source>
            <translation>sein Vokabular hat kein {token}</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/pictures/contents.py" />
            <source>{file} was made for another model</source>
            <translation>{file} wurde für ein anderes Modell gemacht</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/rope.py" />
            <source>{file} has frequencies in {tensor} that cannot be used.</source>
            <translation>{file} enthält in {tensor} Frequenzen, die nicht verwendet werden können.</translation>
        </message>
        <message>
            <location filename="../../engine/model/gguf/settings.py" />
            <source>The file of '{name}' does not say {entry} in a way that can be used.</source>
            <translation>Die Datei von „{name}“ nennt {entry} nicht so, dass es verwendet werden kann.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/eagle.py" />
            <source>'{name}' does not say which of the target's tokens it guesses.</source>
            <translation>„{name}“ sagt nicht, welche Token des Zielmodells es rät.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/eagle.py" />
            <source>'{name}' has weights that an EAGLE-3 head does not have: {tensor}.</source>
            <translation>„{name}“ hat Gewichte, die ein EAGLE-3-Kopf nicht hat: {tensor}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/eagle.py" />
            <source>'{name}' is no EAGLE-3 head of one plain layer of Llama.</source>
            <translation>„{name}“ ist kein EAGLE-3-Kopf aus einer gewöhnlichen Schicht von Llama.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/eagle.py" />
            <source>Choose a head that was made for this target, or another draft.</source>
            <translation>Wählen Sie einen Kopf, der für dieses Zielmodell gemacht wurde, oder ein anderes Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/eagle.py" />
            <source>Choose another head, or a draft model.</source>
            <translation>Wählen Sie einen anderen Kopf oder ein Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/eagle.py" />
            <source>The head '{name}' was made for a model of another size than '{target}'.</source>
            <translation>Der Kopf „{name}“ wurde für ein Modell anderer Größe als „{target}“ gemacht.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/eagle.py" />
            <source>The layers of '{name}' put out several states of each token, which no head reads.</source>
            <translation>Die Schichten von „{name}“ geben zu jedem Token mehrere Zustände aus, die kein Kopf liest.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/multi_token.py" />
            <source>'{name}' comes without heads for further tokens.</source>
            <translation>„{name}“ bringt keine Köpfe für weitere Token mit.</translation>
        </message>
        <message>
            <location filename="../../engine/model/heads/multi_token.py" />
            <source>Choose a draft model, or no draft.</source>
            <translation>Wählen Sie ein Entwurfsmodell oder keines.</translation>
        </message>
        <message>
            <location filename="../../engine/model/json_file.py" />
            <source>Download the file again.</source>
            <translation>Laden Sie die Datei noch einmal herunter.</translation>
        </message>
        <message>
            <location filename="../../engine/model/json_file.py" />
            <source>Use the file that belongs to the model.</source>
            <translation>Nehmen Sie die Datei, die zum Modell gehört.</translation>
        </message>
        <message>
            <location filename="../../engine/model/json_file.py" />
            <source>{file} does not hold a JSON object.</source>
            <translation>{file} enthält kein JSON-Objekt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/json_file.py" />
            <source>{file} is larger than {size} MB.</source>
            <translation>{file} ist größer als {size} MB.</translation>
        </message>
        <message>
            <location filename="../../engine/model/json_file.py" />
            <source>{file} is not valid JSON.</source>
            <translation>{file} ist kein gültiges JSON.</translation>
        </message>
        <message>
            <location filename="../../engine/model/layer_converter.py" />
            <source>'{name}' stores {tensor} as whole numbers, and its config.json does not say what they mean.</source>
            <translation>„{name}“ speichert {tensor} als ganze Zahlen, und config.json sagt nicht, was sie bedeuten.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Check the folder.</source>
            <translation>Prüfen Sie den Ordner.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Check the path, or download the model first.</source>
            <translation>Prüfen Sie den Pfad, oder laden Sie das Modell zuerst herunter.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Check the path, or give a hub id like 'org/name'.</source>
            <translation>Prüfen Sie den Pfad, oder geben Sie einen Namen des Hubs wie „org/name“ an.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Download it first, or give the path of a GGUF file.</source>
            <translation>Laden Sie sie erst herunter, oder geben Sie den Pfad einer GGUF-Datei an.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Give a GGUF file, or the folder with the model's config.json.</source>
            <translation>Geben Sie eine GGUF-Datei an oder den Ordner mit der config.json des Modells.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Give a model folder, a hub id or 'embedded'.</source>
            <translation>Geben Sie einen Modellordner an, eine Kennung auf dem Hub oder „embedded“.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Its path has bytes that are no UTF-8 text, which not every program hands on: rename what has them.</source>
            <translation>Sein Pfad hat Bytes, die kein UTF-8-Text sind und die nicht jedes Programm weitergibt: Benennen Sie um, was sie enthält.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>No model is given.</source>
            <translation>Es ist kein Modell angegeben.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Put the file itself there.</source>
            <translation>Legen Sie die Datei selbst dorthin.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>Put the model's own file there.</source>
            <translation>Legen Sie die Datei des Modells dorthin.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>The hub cache holds no complete variant {variant} of {name}.</source>
            <translation>Der Zwischenspeicher des Hubs enthält keine vollständige Variante {variant} von {name}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>The model's path cannot be used.</source>
            <translation>Der Pfad des Modells kann nicht verwendet werden.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>There is no file or folder '{name}', and no downloaded model of that name in the hub cache.</source>
            <translation>Es gibt weder Datei noch Ordner „{name}“ und im Zwischenspeicher des Hubs kein heruntergeladenes Modell dieses Namens.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>There is no file {file}.</source>
            <translation>Es gibt keine Datei {file}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>There is no model folder {folder}.</source>
            <translation>Es gibt keinen Modellordner {folder}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>There is no model {folder}.</source>
            <translation>Es gibt kein Modell {folder}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>its links go in a circle</source>
            <translation>seine Verweise führen im Kreis</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>{file} cannot be opened: {reason}.</source>
            <translation>{file} kann nicht geöffnet werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>{file} is a file, not a model folder.</source>
            <translation>{file} ist eine Datei, kein Modellordner.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>{file} is a link that leads out of its folder.</source>
            <translation>{file} ist ein Verweis, der aus dem Ordner hinausführt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>{file} is missing.</source>
            <translation>{file} fehlt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/model_folder.py" />
            <source>{file} is not an ordinary file.</source>
            <translation>{file} ist keine gewöhnliche Datei.</translation>
        </message>
        <message>
            <location filename="../../engine/model/network.py" />
            <source>{name} has no list of decoder layers.</source>
            <translation>{name} hat keine Liste von Decoder-Schichten.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/encoder.py" />
            <source>its kind of pictures is not known</source>
            <translation>seine Art von Bildern ist nicht bekannt</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/picture_files.py" />
            <source>A file is not a picture that can be read.</source>
            <translation>Eine Datei ist kein Bild, das gelesen werden kann.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/picture_files.py" />
            <source>A picture has more than {count} million pixels.</source>
            <translation>Ein Bild hat mehr als {count} Millionen Pixel.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/picture_files.py" />
            <source>A picture has more than {size} MB.</source>
            <translation>Ein Bild hat mehr als {size} MB.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/picture_files.py" />
            <source>A picture is damaged.</source>
            <translation>Ein Bild ist beschädigt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/picture_files.py" />
            <source>A picture of {width} x {height} pixels cannot be read.</source>
            <translation>Ein Bild von {width} x {height} Pixeln kann nicht gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/picture_files.py" />
            <source>Give a picture as PNG, JPEG, WebP, GIF or BMP.</source>
            <translation>Geben Sie ein Bild als PNG, JPEG, WebP, GIF oder BMP an.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/picture_files.py" />
            <source>Give a picture that is less narrow.</source>
            <translation>Geben Sie ein Bild an, das weniger schmal ist.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/picture_files.py" />
            <source>Make the picture smaller.</source>
            <translation>Verkleinern Sie das Bild.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/processors.py" />
            <source>'{name}' reads no pictures: {file} is missing in its folder.</source>
            <translation>„{name}“ liest keine Bilder: {file} fehlt in seinem Ordner.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/processors.py" />
            <source>Its text can be used all the same.</source>
            <translation>Sein Text ist trotzdem verwendbar.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/processors.py" />
            <source>The pictures of '{name}' cannot be read: {reason}.</source>
            <translation>Die Bilder für „{name}“ können nicht gelesen werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/processors.py" />
            <source>The settings for pictures of '{name}' say {number} for {key}, and no model has more than {most}.</source>
            <translation>Die Bild-Einstellungen von „{name}“ nennen {number} für {key}, und kein Modell hat mehr als {most}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/processors.py" />
            <source>its pictures need a library that Coppice does not come with</source>
            <translation>seine Bilder brauchen eine Bibliothek, die Coppice nicht mitbringt</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/reader.py" />
            <source>A picture cannot be read: it would take {count} tokens.</source>
            <translation>Ein Bild kann nicht gelesen werden: Es würde {count} Token brauchen.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/reader.py" />
            <source>Leave the pictures out, or choose another model.</source>
            <translation>Lassen Sie die Bilder weg, oder wählen Sie ein anderes Modell.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/reader.py" />
            <source>Make the picture smaller, or choose another model.</source>
            <translation>Verkleinern Sie das Bild, oder wählen Sie ein anderes Modell.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/reader.py" />
            <source>Start a new chat, or take some away.</source>
            <translation>Beginnen Sie einen neuen Chat, oder entfernen Sie einige.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/reader.py" />
            <source>The conversation has {count} pictures, and at most {most} can be read.</source>
            <translation>Das Gespräch hat {count} Bilder, und höchstens {most} können gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/reader.py" />
            <source>how models of its kind do was not compared with transformers yet</source>
            <translation>wie Modelle seiner Art das tun, wurde noch nicht mit transformers verglichen</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/reader.py" />
            <source>it reads text alone</source>
            <translation>es liest nur Text</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/source.py" />
            <source>If the model does, put its mmproj file beside it, from where it was published, and load it again.</source>
            <translation>Falls das Modell Bilder liest, legen Sie seine mmproj-Datei daneben, von dort, wo es veröffentlicht wurde, und laden Sie es erneut.</translation>
        </message>
        <message>
            <location filename="../../engine/model/pictures/source.py" />
            <source>no file with an encoder of pictures lies beside its GGUF file</source>
            <translation>neben seiner GGUF-Datei liegt keine Datei mit einem Bildencoder</translation>
        </message>
        <message>
            <location filename="../../engine/model/rope.py" />
            <source>'{name}' cannot hold a token tree: {reason}.</source>
            <translation>„{name}“ kann keinen Token-Baum halten: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/rope.py" />
            <source>Choose a model of another family.</source>
            <translation>Wählen Sie ein Modell einer anderen Familie.</translation>
        </message>
        <message>
            <location filename="../../engine/model/rope.py" />
            <source>its rotary embedding depends on the length in an unknown way</source>
            <translation>seine Rotationseinbettung hängt auf unbekannte Weise von der Länge ab</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>The config.json of '{name}' has more than {count} entries.</source>
            <translation>Die config.json von „{name}“ hat mehr als {count} Einträge.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>The config.json of '{name}' says {count} layers, which its weights do not hold.</source>
            <translation>Die config.json von „{name}“ nennt {count} Schichten, die ihre Gewichte nicht enthalten.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>The config.json of '{name}' says {entry} = {value}; it must be {wanted}.</source>
            <translation>Die config.json von „{name}“ nennt {entry} = {value}; es muss {wanted} sein.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>The file is damaged or made to do harm: get the model again from where it was published.</source>
            <translation>Die Datei ist beschädigt oder soll Schaden anrichten: das Modell von dort neu holen, wo es veröffentlicht wurde.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>a divisor of {count}, the number of experts</source>
            <translation>ein Teiler von {count}, der Zahl der Experten</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>a divisor of {count}, the number of heads</source>
            <translation>ein Teiler von {count}, der Zahl der Köpfe</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>a divisor of {count}, the width</source>
            <translation>ein Teiler von {count}, der Breite</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>a number above 0</source>
            <translation>eine Zahl über 0</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>a whole number above 0</source>
            <translation>eine ganze Zahl über 0</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>a whole number above 0, or null</source>
            <translation>eine ganze Zahl über 0 oder null</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>at least {number}</source>
            <translation>mindestens {number}</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>at least {number} whole numbers</source>
            <translation>mindestens {number} ganze Zahlen</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>at most {count} in {layers} layers</source>
            <translation>höchstens {count} in {layers} Schichten</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>at most {count}, the number of experts</source>
            <translation>höchstens {count}, die Zahl der Experten,</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>at most {number}</source>
            <translation>höchstens {number}</translation>
        </message>
        <message>
            <location filename="../../engine/model/safe_config.py" />
            <source>between {least} and {most}</source>
            <translation>zwischen {least} und {most}</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>Run 'git lfs pull' in its folder.</source>
            <translation>Rufen Sie in seinem Ordner „git lfs pull“ auf.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} does not say where its tensor {tensor} lies.</source>
            <translation>{file} sagt nicht, wo ihr Tensor {tensor} liegt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} ends before its table of tensors does.</source>
            <translation>{file} endet vor dem Ende ihres Verzeichnisses der Tensoren.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} has a gap or an overlap before its tensor {tensor}.</source>
            <translation>{file} hat vor ihrem Tensor {tensor} eine Lücke oder Überschneidung.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} has a table of tensors that cannot be read.</source>
            <translation>{file} hat ein Verzeichnis der Tensoren, das nicht gelesen werden kann.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} has {count} bytes too many behind its tensors.</source>
            <translation>{file} hat {count} Bytes zu viel hinter ihren Tensoren.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} holds numbers of an unknown type, {kind}.</source>
            <translation>{file} enthält Zahlen einer unbekannten Art, {kind}.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} is a Git LFS pointer, not the weights.</source>
            <translation>{file} ist ein Zeiger von Git LFS, nicht die Gewichte.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} is not a safetensors file: its table would take {size} bytes.</source>
            <translation>{file} ist keine safetensors-Datei: Ihr Verzeichnis bräuchte {size} Bytes.</translation>
        </message>
        <message>
            <location filename="../../engine/model/safetensors_header.py" />
            <source>{file} is only {size} bytes long.</source>
            <translation>{file} ist nur {size} Bytes lang.</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>'{name}' has a layer without keys and values.</source>
            <translation>„{name}“ hat eine Schicht ohne Schlüssel und Werte.</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>Choose a decoder with attention.</source>
            <translation>Wählen Sie einen Decoder mit Aufmerksamkeit.</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>Choose a decoder with full or sliding-window attention, such as Llama, Qwen, Mistral, Gemma or gpt-oss.</source>
            <translation>Wählen Sie einen Decoder mit voller oder gleitender Aufmerksamkeit wie Llama, Qwen, Mistral, Gemma oder gpt-oss.</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>The config.json of '{name}' {fault}, which its weights do not hold.</source>
            <translation>Die config.json von „{name}“ {fault}, was ihre Gewichte nicht enthalten.</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>gives neither a vocabulary nor a width</source>
            <translation>nennt weder ein Vokabular noch eine Breite</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>it has {kinds} layers</source>
            <translation>es hat Schichten der Art {kinds}</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>none of its layers attends</source>
            <translation>keine seiner Schichten hat Attention</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>says that no layer has keys and values of its own</source>
            <translation>sagt, dass keine Schicht eigene Schlüssel und Werte hat</translation>
        </message>
        <message>
            <location filename="../../engine/model/shape.py" />
            <source>says {count} layers</source>
            <translation>nennt {count} Schichten</translation>
        </message>
        <message>
            <location filename="../../engine/model/weight_loader.py" />
            <source>Check the disk.</source>
            <translation>Prüfen Sie die Platte.</translation>
        </message>
        <message>
            <location filename="../../engine/model/weight_loader.py" />
            <source>Choose another.</source>
            <translation>Wählen Sie ein anderes.</translation>
        </message>
        <message>
            <location filename="../../engine/model/weight_loader.py" />
            <source>Download the model again, or choose another one.</source>
            <translation>Laden Sie das Modell noch einmal herunter, oder wählen Sie ein anderes.</translation>
        </message>
        <message>
            <location filename="../../engine/model/weight_loader.py" />
            <source>The config.json asks for {size} MB of buffers, where models have less than {limit} MB.</source>
            <translation>Die config.json verlangt {size} MB Puffer; Modelle haben weniger als {limit} MB.</translation>
        </message>
        <message>
            <location filename="../../engine/model/weight_loader.py" />
            <source>The weights for {tensor} cannot be converted to the shape that transformers gives them.</source>
            <translation>Die Gewichte für {tensor} lassen sich nicht in die Form bringen, die transformers ihnen gibt.</translation>
        </message>
        <message>
            <location filename="../../engine/model/weight_loader.py" />
            <source>{file} ended early while it was read.</source>
            <translation>{file} endete zu früh, während sie gelesen wurde.</translation>
        </message>
        <message>
            <location filename="../../engine/model/weight_loader.py" />
            <source>{file} holds numbers of the type {kind}, which cannot be used.</source>
            <translation>{file} enthält Zahlen der Art {kind}, die nicht verwendet werden können.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/libraries.py" />
            <source>Install the latest Visual C++ Redistributable (x64) from {address}, then start Coppice again.</source>
            <translation>Installieren Sie das neueste Visual C++ Redistributable (x64) von {address} und starten Sie dann Coppice erneut.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/libraries.py" />
            <source>Let Windows manage the size of its page file: programs get no more memory than RAM and that file hold together.</source>
            <translation>Lassen Sie Windows die Größe der Auslagerungsdatei selbst verwalten: Programme bekommen nicht mehr Speicher, als RAM und diese Datei zusammen fassen.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/libraries.py" />
            <source>Smart App Control of Windows, or a rule of this computer, refuses the file, which is not signed. Switch it off in Windows Security, App and browser control, or ask whoever looks after the computer.</source>
            <translation>Smart App Control von Windows oder eine Regel dieses Computers lehnt die Datei ab, die nicht signiert ist. Schalten Sie es in der Windows-Sicherheit unter App- und Browsersteuerung aus, oder fragen Sie, wer den Computer betreut.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/libraries.py" />
            <source>Windows cannot load a library that the engine needs: {reason}</source>
            <translation>Windows kann eine Bibliothek nicht laden, die die Engine braucht: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/messages.py" />
            <source>Common tokens: {text} % of an ordinary text, {vocabulary} % of the target's vocabulary.</source>
            <translation>Gemeinsame Token: {text} % eines gewöhnlichen Textes, {vocabulary} % des Vokabulars des Zielmodells.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Activations '{name}'</source>
            <translation>Aktivierungen '{name}'</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>An empty stop string</source>
            <translation>Eine leere Stoppfolge</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>An expansion is out of range.</source>
            <translation>Eine Verzweigung liegt außerhalb des erlaubten Bereichs.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Branch width {number}</source>
            <translation>Breite der Verzweigung {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Budget {number}</source>
            <translation>Budget {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Context {number}</source>
            <translation>Kontext {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>DRY allowed length {number}</source>
            <translation>DRY: erlaubte Länge {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>DRY base {number}</source>
            <translation>DRY-Basis {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>DRY multiplier {number}</source>
            <translation>DRY-Multiplikator {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>DRY range {number}</source>
            <translation>DRY-Bereich {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Device '{name}'</source>
            <translation>Gerät „{name}“</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Draft batch {number}</source>
            <translation>Knoten je Entwurfsschritt {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Frequency penalty {number}</source>
            <translation>Häufigkeitsstrafe {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a number above 0 and up to 1.</source>
            <translation>Geben Sie eine Zahl über 0 und bis 1 an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a number above 0.</source>
            <translation>Geben Sie eine Zahl über 0 an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a number from 0 to below 1.</source>
            <translation>Geben Sie eine Zahl von 0 bis unter 1 an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a number from {least} to {most}.</source>
            <translation>Geben Sie eine Zahl von {least} bis {most} an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a number of nodes from 1 to {most}, or auto.</source>
            <translation>Geben Sie eine Zahl von Knoten von 1 bis {most} an oder auto.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a number of tokens, or 0 for automatic.</source>
            <translation>Geben Sie eine Zahl von Token an oder 0 für automatisch.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a whole number from {least} to {most}.</source>
            <translation>Geben Sie eine ganze Zahl von {least} bis {most} an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a whole number of at least 1.</source>
            <translation>Geben Sie eine ganze Zahl von mindestens 1 an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a whole number of tokens, 0 or more.</source>
            <translation>Geben Sie eine ganze Zahl von Token an, 0 oder mehr.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a whole number of tokens, or -1 for all.</source>
            <translation>Geben Sie eine ganze Zahl von Token an oder -1 für alle.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give a whole number, 0 for no limit.</source>
            <translation>Geben Sie eine ganze Zahl an, 0 für keine Grenze.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give at most {most}.</source>
            <translation>Geben Sie höchstens {most} an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give numbers of children from 1 to 64.</source>
            <translation>Anzahlen von Kindern von 1 bis 64 angeben.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give parents like -1,0,0,1: each before its children.</source>
            <translation>Eltern wie -1,0,0,1 angeben: jeder Knoten vor seinen Kindern.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give stop strings with at least one character.</source>
            <translation>Geben Sie Stoppfolgen mit mindestens einem Zeichen an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Give texts of 1 to {most} characters.</source>
            <translation>Geben Sie Texte mit 1 bis {most} Zeichen an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Keys and values '{name}'</source>
            <translation>Schlüssel und Werte „{name}“</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Leave out --acceptance.</source>
            <translation>Lassen Sie --acceptance weg.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Leave out --expansions.</source>
            <translation>--expansions weglassen.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Leave out --grow-map.</source>
            <translation>--grow-map weglassen.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Likeliest tokens {number}</source>
            <translation>Wahrscheinlichste Token {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Max new tokens {number}</source>
            <translation>Längste Antwort {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Method '{name}'</source>
            <translation>Verfahren „{name}“</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Min new tokens {number}</source>
            <translation>Mindestzahl neuer Token {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Min-p {number}</source>
            <translation>Min-p {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Place '{name}'</source>
            <translation>Platz „{name}“</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Presence penalty {number}</source>
            <translation>Abzug für Vorhandenes {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Repetition penalty {number}</source>
            <translation>Abzug für Wiederholungen {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Score decay {number}</source>
            <translation>Abnahme der Bewertung {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Seed {number}</source>
            <translation>Startwert {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Sequence breaker '{text}'</source>
            <translation>Trenntext „{text}“</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Temperature {number}</source>
            <translation>Temperatur {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The bias of token {number}</source>
            <translation>Der Zuschlag des Tokens {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The grow map is out of range.</source>
            <translation>Die Baumform liegt außerhalb des erlaubten Bereichs.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The limit of GPU memory</source>
            <translation>Die Grenze des Grafikspeichers</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The limit of RAM</source>
            <translation>Die Grenze des RAM</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The method '{method}' knows no acceptance.</source>
            <translation>Das Verfahren „{method}“ kennt keine Annahme.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The method '{method}' knows no expansions.</source>
            <translation>Das Verfahren „{method}“ kennt keine Verzweigungen.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The method '{method}' knows no grow map.</source>
            <translation>Das Verfahren „{method}“ kennt keine Baumform.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The number of sequence breakers</source>
            <translation>Anzahl der Trenntexte</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>The size of the constraint</source>
            <translation>Die Größe der Vorgabe</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Top-k {number}</source>
            <translation>Top-k {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Top-p {number}</source>
            <translation>Top-p {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Tree depth {number}</source>
            <translation>Baumtiefe {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>Weights '{name}'</source>
            <translation>Gewichte „{name}“</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>XTC probability {number}</source>
            <translation>XTC-Wahrscheinlichkeit {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/options.py" />
            <source>XTC threshold {number}</source>
            <translation>XTC-Schwelle {number}</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Address already in use</source>
            <translation>die Adresse wird schon benutzt</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Argument list too long</source>
            <translation>zu viele oder zu lange Argumente</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Cannot allocate memory</source>
            <translation>nicht genug Arbeitsspeicher</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Cannot assign requested address</source>
            <translation>diese Adresse hat der Rechner nicht</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Connection refused</source>
            <translation>die Verbindung wurde abgelehnt</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Connection reset by peer</source>
            <translation>die Gegenseite hat die Verbindung beendet</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Connection timed out</source>
            <translation>keine Antwort</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Device or resource busy</source>
            <translation>Gerät oder Datei wird gerade benutzt</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Disk quota exceeded</source>
            <translation>der zugeteilte Platz auf der Platte ist verbraucht</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Exec format error</source>
            <translation>kein Programm für dieses System</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>File name too long</source>
            <translation>der Dateiname ist zu lang</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>File too large</source>
            <translation>die Datei ist zu groß</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Input/output error</source>
            <translation>Lese- oder Schreibfehler</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Is a directory</source>
            <translation>das ist ein Ordner</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Name or service not known</source>
            <translation>der Name ist nicht bekannt</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Network is unreachable</source>
            <translation>das Netz ist nicht erreichbar</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>No route to host</source>
            <translation>kein Weg zum Rechner</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>No space left on device</source>
            <translation>kein Platz mehr auf der Platte</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>No such device or address</source>
            <translation>kein solches Gerät</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Not a directory</source>
            <translation>das ist kein Ordner</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Not an ordinary file</source>
            <translation>das ist keine gewöhnliche Datei</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Operation not permitted</source>
            <translation>nicht erlaubt</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Permission denied</source>
            <translation>keine Berechtigung</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Read-only file system</source>
            <translation>das Dateisystem ist nur lesbar</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Temporary failure in name resolution</source>
            <translation>Namen lassen sich gerade nicht auflösen</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/sentences.py" />
            <source>Too many open files</source>
            <translation>zu viele offene Dateien</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>Give 127.0.0.1 for this computer alone.</source>
            <translation>Geben Sie 127.0.0.1 für diesen Computer allein an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>Give it like http://localhost:3000, in small letters and without a slash at its end.</source>
            <translation>Geben Sie sie wie http://localhost:3000 an, in Kleinbuchstaben und ohne Schrägstrich am Ende.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>Give one up to 65535.</source>
            <translation>Geben Sie einen bis 65535 an.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>Give one without line breaks and other control characters, and without spaces at its ends.</source>
            <translation>Geben Sie einen ohne Zeilenumbrüche und andere Steuerzeichen an, und ohne Leerzeichen am Anfang und am Ende.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>No browser sends {name} as the origin of a page.</source>
            <translation>Kein Browser sendet {name} als Herkunft einer Seite.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>No client can send the server's key.</source>
            <translation>Kein Client kann den Schlüssel des Servers senden.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>Other computers could ask this server without a key.</source>
            <translation>Andere Computer könnten diesen Server ohne Schlüssel befragen.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>Port {number} is out of range.</source>
            <translation>Port {number} liegt außerhalb des zulässigen Bereichs.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>Set a key, or listen at 127.0.0.1.</source>
            <translation>Legen Sie einen Schlüssel fest, oder lauschen Sie an 127.0.0.1.</translation>
        </message>
        <message>
            <location filename="../../engine/protocol/serving.py" />
            <source>The server's address is empty.</source>
            <translation>Die Adresse des Servers ist leer.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/answers.py" />
            <source>The client does not read what it asked for.</source>
            <translation>Das Programm liest nicht, was es angefragt hat.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/completions/request.py" />
            <source>A suffix goes with a text.</source>
            <translation>Zu einem Text dahinter (suffix) gehört ein Text davor.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/completions/request.py" />
            <source>Ask for no stream, and for no more with 'n' than with 'best_of'.</source>
            <translation>Verlangen Sie keinen Stream und mit „n“ nicht mehr als mit „best_of“.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/completions/request.py" />
            <source>Leave out 'echo' or 'logprobs'.</source>
            <translation>Lassen Sie „echo“ oder „logprobs“ weg.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/completions/request.py" />
            <source>Send fewer prompts at once, or ask for fewer choices.</source>
            <translation>Senden Sie weniger Eingaben auf einmal, oder verlangen Sie weniger Antworten.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/completions/request.py" />
            <source>Send the prompt as a text, not as tokens.</source>
            <translation>Senden Sie die Eingabe als Text und nicht als Token.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/completions/request.py" />
            <source>The best of several answers are found when all are written.</source>
            <translation>Welche Antworten die besten sind, steht erst fest, wenn alle geschrieben sind.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/completions/request.py" />
            <source>The log-probabilities of prompts are not told here.</source>
            <translation>Log-Wahrscheinlichkeiten der Eingabe werden hier nicht mitgeteilt.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/completions/request.py" />
            <source>These are more than {most} answers in one request.</source>
            <translation>Das sind mehr als {most} Antworten in einer Anfrage.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/context.py" />
            <source>Ask again once it is back.</source>
            <translation>Fragen Sie noch einmal, sobald er wieder da ist.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/context.py" />
            <source>The server was stopped.</source>
            <translation>Der Server wurde beendet.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>A picture cannot stand here.</source>
            <translation>Hier darf kein Bild stehen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>A result is for the call {name}, which is not in the conversation.</source>
            <translation>Ein Ergebnis gehört zum Aufruf {name}, den es in der Unterhaltung nicht gibt.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Leave it out: only tools that your own program runs can be called here.</source>
            <translation>Lassen Sie es weg: Hier können nur Werkzeuge aufgerufen werden, die Ihr eigenes Programm ausführt.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Leave out the oldest ones.</source>
            <translation>Lassen Sie die ältesten weg.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Pictures are shown by the user, or come back from tools.</source>
            <translation>Bilder zeigt der Benutzer, oder Werkzeuge geben sie zurück.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Pictures of the type {name} cannot be read here.</source>
            <translation>Bilder der Art {name} können hier nicht gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Send text alone.</source>
            <translation>Senden Sie nur Text.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Send text and pictures alone.</source>
            <translation>Senden Sie nur Text und Bilder.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Send the turn that made the call, too.</source>
            <translation>Senden Sie auch den Beitrag mit, der den Aufruf enthält.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Send them as {name}.</source>
            <translation>Senden Sie sie als {name}.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Send them in a message of the user.</source>
            <translation>Senden Sie sie in einer Nachricht des Benutzers.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>Sound, video and files cannot be read here.</source>
            <translation>Ton, Video und Dateien können hier nicht gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>The conversation has more than {most} pictures.</source>
            <translation>Die Unterhaltung hat mehr als {most} Bilder.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/conversation.py" />
            <source>This server has no tool of the type {name}.</source>
            <translation>Dieser Server hat kein Werkzeug der Art {name}.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/desk.py" />
            <source>Another model was loaded meanwhile.</source>
            <translation>Inzwischen wurde ein anderes Modell geladen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/desk.py" />
            <source>Ask again when some are answered.</source>
            <translation>Fragen Sie noch einmal, wenn einige beantwortet sind.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/desk.py" />
            <source>Ask again.</source>
            <translation>Fragen Sie noch einmal.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/desk.py" />
            <source>Too many requests wait already.</source>
            <translation>Es warten schon zu viele Anfragen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/endpoints/constraint_fields.py" />
            <source>Give the schema it names.</source>
            <translation>Das genannte Schema mitgeben.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/endpoints/constraint_fields.py" />
            <source>Leave all but one out.</source>
            <translation>Alle bis auf eines weglassen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/endpoints/constraint_fields.py" />
            <source>The constraint of the answer is given in more than one field.</source>
            <translation>Die Vorgabe für die Antwort steht in mehr als einem Feld.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/endpoints/constraint_fields.py" />
            <source>The format json_schema comes without a schema.</source>
            <translation>Das Format json_schema kommt ohne Schema.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/endpoints/sampling_fields.py" />
            <source>Leave out 'coppice.rounds', or ask at another address.</source>
            <translation>Lassen Sie „coppice.rounds“ weg, oder fragen Sie unter einer anderen Adresse.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/endpoints/sampling_fields.py" />
            <source>Rounds are told of chat completions and completions alone.</source>
            <translation>Runden werden nur bei Chat Completions und Completions mitgeteilt.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/endpoints/template_fields.py" />
            <source>Leave it out of 'chat_template_kwargs'.</source>
            <translation>Lassen Sie es aus „chat_template_kwargs“ weg.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/endpoints/template_fields.py" />
            <source>The chat template is told {name} by the server itself.</source>
            <translation>{name} teilt der Server der Chat-Vorlage selbst mit.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/auth.py" />
            <source>Send the one that the server was started with, as 'Authorization: Bearer KEY' or as 'x-api-key: KEY'.</source>
            <translation>Senden Sie den, mit dem der Server gestartet wurde, als „Authorization: Bearer SCHLÜSSEL“ oder als „x-api-key: SCHLÜSSEL“.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/auth.py" />
            <source>The key is not the server's.</source>
            <translation>Der Schlüssel ist nicht der des Servers.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/auth.py" />
            <source>The server asks for a key, and got none.</source>
            <translation>Der Server verlangt einen Schlüssel und hat keinen bekommen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>Send 'Content-Type: application/json'.</source>
            <translation>Senden Sie „Content-Type: application/json“.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>Send less at once.</source>
            <translation>Senden Sie weniger auf einmal.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>Send less at once; pictures in the standard alphabet of base64, without line breaks.</source>
            <translation>Senden Sie weniger auf einmal; Bilder im Standardalphabet von Base64, ohne Zeilenumbrüche.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>The request did not come whole within {seconds} s.</source>
            <translation>Die Anfrage kam nicht innerhalb von {seconds} s vollständig an.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>The request has two lengths.</source>
            <translation>Die Anfrage nennt zwei Längen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>The request is longer than {mib} MiB beside its pictures.</source>
            <translation>Die Anfrage ist, von ihren Bildern abgesehen, länger als {mib} MiB.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>The request is longer than {mib} MiB.</source>
            <translation>Die Anfrage ist länger als {mib} MiB.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>The request is no JSON that can be read: {reason}.</source>
            <translation>Die Anfrage ist kein lesbares JSON: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>The request is not sent as JSON.</source>
            <translation>Die Anfrage wurde nicht als JSON gesendet.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>it has a number that is too long</source>
            <translation>sie enthält eine zu lange Zahl</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>it has half of a character</source>
            <translation>sie enthält ein halbes Zeichen</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>it has too many lists and objects</source>
            <translation>sie enthält zu viele Listen und Objekte</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>it is no UTF-8</source>
            <translation>sie ist kein UTF-8</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>line {line}, column {column}: {reason}</source>
            <translation>Zeile {line}, Spalte {column}: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/bodies.py" />
            <source>{name} is no number</source>
            <translation>{name} ist keine Zahl</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/connections.py" />
            <source>Ask again later.</source>
            <translation>Fragen Sie später noch einmal.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/connections.py" />
            <source>The request is no HTTP that can be read.</source>
            <translation>Die Anfrage ist kein lesbares HTTP.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/connections.py" />
            <source>The server has too many connections.</source>
            <translation>Der Server hat zu viele Verbindungen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>Ask again once one is; /health says when.</source>
            <translation>Fragen Sie an, sobald eines geladen ist; /health sagt, wann.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>Ask with {methods}.</source>
            <translation>Fragen Sie mit {methods} an.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>Clients ask below /v1, or below /api as those of Ollama do; /openapi.json lists every address.</source>
            <translation>Gefragt wird unter /v1, oder wie bei Ollama unter /api; /openapi.json nennt jede Adresse.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>Details are in the engine's log.</source>
            <translation>Näheres steht im Protokoll des Rechenprozesses.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>Send less of it, or have the model loaded with a larger context.</source>
            <translation>Senden Sie weniger davon, oder lassen Sie das Modell mit einem größeren Kontext laden.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>Send one, with the fields of this address.</source>
            <translation>Senden Sie eines mit den Feldern dieser Adresse.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>The headers of this request are too long.</source>
            <translation>Die Kopfzeilen dieser Anfrage sind zu lang.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>The request is no JSON object.</source>
            <translation>Die Anfrage ist kein JSON-Objekt.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>The server met an unexpected error.</source>
            <translation>Der Server ist auf einen unerwarteten Fehler gestoßen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>There is no such address here.</source>
            <translation>Diese Adresse gibt es hier nicht.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/errors.py" />
            <source>This address does not know this method.</source>
            <translation>Diese Adresse kennt diese Methode nicht.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/limits.py" />
            <source>The server has no memory left for requests as long as this one.</source>
            <translation>Für so lange Anfragen hat der Server keinen Speicher mehr frei.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/limits.py" />
            <source>Too many requests came from this address.</source>
            <translation>Von dieser Adresse kamen zu viele Anfragen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/origins.py" />
            <source>Ask 127.0.0.1, or have it listen at another address, with a key.</source>
            <translation>Fragen Sie 127.0.0.1, oder lassen Sie ihn mit einem Schlüssel auf einer anderen Adresse lauschen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/origins.py" />
            <source>Name the page's origin where the server is started.</source>
            <translation>Nennen Sie den Ursprung (Origin) der Seite, wo der Server gestartet wird.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/origins.py" />
            <source>This server answers as localhost only, not as {name}.</source>
            <translation>Dieser Server antwortet nur als localhost, nicht als {name}.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/origins.py" />
            <source>Web pages of other sites may not ask this server.</source>
            <translation>Webseiten anderer Anbieter dürfen diesen Server nicht fragen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/guard/origins.py" />
            <source>Web pages of {name} may not ask this server.</source>
            <translation>Webseiten von {name} dürfen diesen Server nicht fragen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/listening.py" />
            <source>Choose another port, or end the program that uses this one.</source>
            <translation>Wählen Sie einen anderen Port, oder beenden Sie das Programm, das diesen benutzt.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/listening.py" />
            <source>Choose another port, such as {port}.</source>
            <translation>Wählen Sie einen anderen Port, etwa {port}.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/listening.py" />
            <source>Give an address of this computer, such as {host}.</source>
            <translation>Geben Sie eine Adresse dieses Computers an, etwa {host}.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/listening.py" />
            <source>Start it again.</source>
            <translation>Starten Sie ihn noch einmal.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/listening.py" />
            <source>The server cannot listen at {address}: {reason}.</source>
            <translation>Der Server kann nicht an {address} lauschen: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/listening.py" />
            <source>The server ended by itself.</source>
            <translation>Der Server hat sich selbst beendet.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/llama_server/request.py" />
            <source>A prompt has more than {most} texts among its tokens.</source>
            <translation>Eine Eingabe hat mehr als {most} Texte zwischen ihren Token.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/llama_server/request.py" />
            <source>Join texts that follow each other.</source>
            <translation>Fügen Sie Texte zusammen, die aufeinander folgen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/llama_server/request.py" />
            <source>Leave out 'post_sampling_probs'.</source>
            <translation>Lassen Sie „post_sampling_probs“ weg.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/llama_server/request.py" />
            <source>Probabilities are told as the model itself has them, before they are filtered.</source>
            <translation>Mitgeteilt werden die Wahrscheinlichkeiten des Modells selbst, bevor gefiltert wird.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/messages/blocks.py" />
            <source>Pictures are not fetched from addresses or files here.</source>
            <translation>Bilder werden hier nicht von Adressen oder aus Dateien geholt.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/messages/blocks.py" />
            <source>Send the picture itself, as a source of the type base64.</source>
            <translation>Senden Sie das Bild selbst, als Quelle der Art base64.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/model_names.py" />
            <source>The one that is loaded is {name}.</source>
            <translation>Geladen ist {name}.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/model_names.py" />
            <source>There is no model {name} here.</source>
            <translation>Das Modell {name} gibt es hier nicht.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/ollama/request.py" />
            <source>Leave out 'template', or send what it would make of the prompt, with 'raw'.</source>
            <translation>Lassen Sie 'template' weg, oder senden Sie mit 'raw', was die Vorlage aus dem Prompt machen würde.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/ollama/request.py" />
            <source>The model's own chat template is used here.</source>
            <translation>Hier gilt die Chat-Vorlage des Modells.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>A picture has more than {mib} MiB.</source>
            <translation>Ein Bild hat mehr als {mib} MiB.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>A picture is not sent as base64 that can be read.</source>
            <translation>Ein Bild ist nicht als lesbares Base64 gesendet.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>A text that is read as it stands cannot show pictures.</source>
            <translation>Ein Text, der so gelesen wird, wie er ist, kann keine Bilder zeigen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>Send a smaller one.</source>
            <translation>Senden Sie ein kleineres.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>Send text alone, or have a model loaded that reads pictures.</source>
            <translation>Senden Sie nur Text, oder lassen Sie ein Modell laden, das Bilder liest.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>Send the picture itself as a data: URL (data:image/png;base64,…).</source>
            <translation>Senden Sie das Bild selbst als data:-URL (data:image/png;base64,…).</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>Send them in a message of a chat.</source>
            <translation>Senden Sie sie in einer Nachricht eines Chats.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>The loaded model reads no pictures.</source>
            <translation>Das geladene Modell liest keine Bilder.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/pictures.py" />
            <source>Use the standard alphabet, with padding and without line breaks.</source>
            <translation>Verwenden Sie das Standardalphabet, mit Füllzeichen und ohne Zeilenumbrüche.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/question.py" />
            <source>Name one of the tools of the request.</source>
            <translation>Nennen Sie eines der Werkzeuge der Anfrage.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/question.py" />
            <source>The conversation has more than {most} characters.</source>
            <translation>Die Unterhaltung hat mehr als {most} Zeichen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/question.py" />
            <source>There is no tool {name} to call.</source>
            <translation>Es gibt kein Werkzeug {name}, das aufgerufen werden könnte.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/input_items.py" />
            <source>Send the item itself.</source>
            <translation>Senden Sie das Gemeinte selbst.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/input_items.py" />
            <source>The input refers to a stored item, and this server stores nothing.</source>
            <translation>Die Eingabe verweist auf etwas Gespeichertes, und dieser Server speichert nichts.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/input_items.py" />
            <source>The input refers to a stored picture, and this server stores nothing.</source>
            <translation>Die Eingabe verweist auf ein gespeichertes Bild, und dieser Server speichert nichts.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/request.py" />
            <source>Ask for chat completions with 'logprobs'.</source>
            <translation>Fragen Sie nach Chat Completions mit „logprobs“.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/request.py" />
            <source>Responses have no log-probabilities here.</source>
            <translation>Responses haben hier keine Log-Wahrscheinlichkeiten.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/request.py" />
            <source>Send the whole conversation as the input.</source>
            <translation>Senden Sie die ganze Unterhaltung als Eingabe.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/request.py" />
            <source>Stream the answer.</source>
            <translation>Lassen Sie sich die Antwort streamen.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/request.py" />
            <source>This server answers no requests in the background.</source>
            <translation>Dieser Server beantwortet keine Anfragen im Hintergrund.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/responses/request.py" />
            <source>This server stores no responses, so that none can be gone on from.</source>
            <translation>Dieser Server speichert keine Antworten; an keine kann angeknüpft werden.</translation>
        </message>
        <message>
            <location filename="../../engine/serving/worker.py" />
            <source>The engine met an unexpected error: {reason}</source>
            <translation>Der Rechenprozess stieß auf einen unerwarteten Fehler: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/serving/worker.py" />
            <source>this request</source>
            <translation>bei dieser Anfrage</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/method_choice.py" />
            <source>A sampled tree cannot pay here, as each token touches other experts: one token is drafted a round.</source>
            <translation>Ein gezogener Baum kann sich hier nicht lohnen, da jedes Token andere Experten berührt: Je Runde wird ein Token entworfen.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/method_choice.py" />
            <source>As measured here, no tree of Sequoia's pays: the smallest is grown.</source>
            <translation>Wie hier gemessen, lohnt sich kein Baum von Sequoia: Es wächst der kleinste.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/method_choice.py" />
            <source>Choose a draft, or the method 'lookup'.</source>
            <translation>Wählen Sie ein Entwurfsmodell oder das Verfahren „lookup“.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/method_choice.py" />
            <source>No draft model is loaded.</source>
            <translation>Es ist kein Entwurfsmodell geladen.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/method_choice.py" />
            <source>No draft model is loaded: the text alone suggests.</source>
            <translation>Es ist kein Entwurfsmodell geladen: Nur der Text selbst macht Vorschläge.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/method_choice.py" />
            <source>The method '{method}' needs a draft model.</source>
            <translation>Das Verfahren „{method}“ braucht ein Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/methods/verification.py" />
            <source>The target computes logits that are not finite numbers.</source>
            <translation>Das Zielmodell berechnet Logits, die keine endlichen Zahlen sind.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>A depth of {count} is out of range.</source>
            <translation>Eine Tiefe von {count} liegt außerhalb des erlaubten Bereichs.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>A tree of {count} nodes is out of range.</source>
            <translation>Ein Baum von {count} Knoten liegt außerhalb des erlaubten Bereichs.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>Give 1 to {most} levels, with the root's.</source>
            <translation>Geben Sie 1 bis {most} Ebenen an, mit der der Wurzel.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>Give 1 to {most} nodes, with the root.</source>
            <translation>Geben Sie 1 bis {most} Knoten an, mit der Wurzel.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>Give probabilities like 0.6,0.2,0.1: of the first child, the second, and so on.</source>
            <translation>Geben Sie Wahrscheinlichkeiten wie 0.6,0.2,0.1 an: die des ersten Kindes, des zweiten und so weiter.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>Give probabilities that sum to at most 1.</source>
            <translation>Geben Sie Wahrscheinlichkeiten an, deren Summe höchstens 1 ist.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>The acceptance vector has {count} numbers.</source>
            <translation>Der Annahmevektor hat {count} Zahlen.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>The acceptance vector holds {number}, which is no probability.</source>
            <translation>Der Annahmevektor enthält {number}, und das ist keine Wahrscheinlichkeit.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>The acceptance vector is empty.</source>
            <translation>Der Annahmevektor ist leer.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/trees/tree_program.py" />
            <source>The acceptance vector sums to {number}, but of a node's children at most one is accepted.</source>
            <translation>Die Summe des Annahmevektors ist {number}, aber von den Kindern eines Knotens wird höchstens eines angenommen.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/reader.py" />
            <source>As long as the draft could not read the text, every pass wrote one token.</source>
            <translation>Solange das Entwurfsmodell den Text nicht lesen konnte, schrieb jeder Durchlauf ein Token.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/reasons.py" />
            <source>1 level</source>
            <translation>1 Ebene</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/reasons.py" />
            <source>A tree does not pay here: the best, {size}, would give {cost}; so one token per pass.</source>
            <translation>Ein Baum lohnt sich hier nicht: Der beste, {size}, gäbe {cost}; also ein Token je Durchlauf.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/reasons.py" />
            <source>Wider trees do not pay here: a chain of {size} promises {cost}.</source>
            <translation>Breitere Bäume lohnen sich hier nicht: Eine Kette, {size}, verspricht {cost}.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/reasons.py" />
            <source>{count} levels</source>
            <translation>{count} Ebenen</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/reasons.py" />
            <source>{nodes}, {levels} deep ({method})</source>
            <translation>{nodes} in {levels} ({method})</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/reasons.py" />
            <source>{size} promise {cost}.</source>
            <translation>{size} versprechen {cost}.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/reasons.py" />
            <source>{tokens} tokens in {times} times the time of one</source>
            <translation>{tokens} Token in der {times}-fachen Zeit von einem</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/tree_limit.py" />
            <source>Memory ran out with bigger trees before.</source>
            <translation>Für größere Bäume reichte der Speicher schon einmal nicht.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/tree_limit.py" />
            <source>No trees are grown for now.</source>
            <translation>Vorerst wachsen keine Bäume.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/tree_limit.py" />
            <source>Trees have at most {nodes}.</source>
            <translation>Bäume haben höchstens {nodes}.</translation>
        </message>
        <message>
            <location filename="../../engine/speculation/tuning/tree_limit.py" />
            <source>Trees were smaller for a while.</source>
            <translation>Bäume waren eine Zeit lang kleiner.</translation>
        </message>
        <message>
            <location filename="../../engine/text/backend.py" />
            <source>The tokenizer of {name} failed: {reason}.</source>
            <translation>Der Tokenizer von {name} ist gescheitert: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/backend.py" />
            <source>this model</source>
            <translation>diesem Modell</translation>
        </message>
        <message>
            <location filename="../../engine/text/calling.py" />
            <source>A tool has to be called, and there is none in the request.</source>
            <translation>Ein Werkzeug muss aufgerufen werden, und in der Anfrage steht keines.</translation>
        </message>
        <message>
            <location filename="../../engine/text/calling.py" />
            <source>Send the tools, or leave out their choice.</source>
            <translation>Senden Sie die Werkzeuge mit, oder lassen Sie ihre Auswahl weg.</translation>
        </message>
        <message>
            <location filename="../../engine/text/chat_template.py" />
            <source>Change the conversation, or choose another model.</source>
            <translation>Ändern Sie die Unterhaltung, oder wählen Sie ein anderes Modell.</translation>
        </message>
        <message>
            <location filename="../../engine/text/chat_template.py" />
            <source>The conversation does not end with a message to answer.</source>
            <translation>Das Gespräch endet nicht mit einer Nachricht, die zu beantworten wäre.</translation>
        </message>
        <message>
            <location filename="../../engine/text/chat_template.py" />
            <source>The conversation is empty.</source>
            <translation>Das Gespräch ist leer.</translation>
        </message>
        <message>
            <location filename="../../engine/text/chat_template.py" />
            <source>The message is empty.</source>
            <translation>Die Nachricht ist leer.</translation>
        </message>
        <message>
            <location filename="../../engine/text/chat_template.py" />
            <source>The model's chat template refuses this conversation: {reason}.</source>
            <translation>Die Chat-Vorlage des Modells lehnt dieses Gespräch ab: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/chat_template.py" />
            <source>Write a message first.</source>
            <translation>Schreiben Sie erst eine Nachricht.</translation>
        </message>
        <message>
            <location filename="../../engine/text/gguf_tokenizer.py" />
            <source>The tokenizer of '{name}' cannot be used: {reason}.</source>
            <translation>Der Tokenizer von „{name}“ kann nicht verwendet werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/gguf_tokenizer.py" />
            <source>it has tokens of more than {count} characters</source>
            <translation>er hat Tokens von mehr als {count} Zeichen</translation>
        </message>
        <message>
            <location filename="../../engine/text/gguf_tokenizer.py" />
            <source>its entry {entry} is of a wrong type</source>
            <translation>der Eintrag {entry} hat einen falschen Typ</translation>
        </message>
        <message>
            <location filename="../../engine/text/gguf_tokenizer.py" />
            <source>its kind '{kind}' is not known</source>
            <translation>die Art „{kind}“ ist nicht bekannt</translation>
        </message>
        <message>
            <location filename="../../engine/text/gguf_tokenizer.py" />
            <source>its lists are of different lengths</source>
            <translation>die Listen sind verschieden lang</translation>
        </message>
        <message>
            <location filename="../../engine/text/gguf_tokenizer.py" />
            <source>its merges cannot be read</source>
            <translation>die Zusammenfügungen können nicht gelesen werden</translation>
        </message>
        <message>
            <location filename="../../engine/text/gguf_tokenizer.py" />
            <source>its rule '{rule}' for splitting text is not known</source>
            <translation>die Regel „{rule}“, nach der Text zerlegt wird, ist nicht bekannt</translation>
        </message>
        <message>
            <location filename="../../engine/text/grammars/constrained_answer.py" />
            <source>Ask for a new answer, or leave the constraint out.</source>
            <translation>Eine neue Antwort verlangen oder die Vorgabe weglassen.</translation>
        </message>
        <message>
            <location filename="../../engine/text/grammars/constrained_answer.py" />
            <source>The answer that is to be continued does not fit the constraint.</source>
            <translation>Die Antwort, die fortgesetzt werden soll, erfüllt die Vorgabe nicht.</translation>
        </message>
        <message>
            <location filename="../../engine/text/grammars/grammar.py" />
            <source>Give a simpler constraint.</source>
            <translation>Eine einfachere Vorgabe angeben.</translation>
        </message>
        <message>
            <location filename="../../engine/text/grammars/grammar.py" />
            <source>The answer cannot go on under its constraint: {reason}.</source>
            <translation>Die Antwort kann unter ihrer Vorgabe nicht weitergehen: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/grammars/trial.py" />
            <source>Change the schema or the grammar.</source>
            <translation>Das Schema oder die Grammatik ändern.</translation>
        </message>
        <message>
            <location filename="../../engine/text/grammars/trial.py" />
            <source>Give a smaller schema or a simpler grammar.</source>
            <translation>Ein kleineres Schema oder eine einfachere Grammatik angeben.</translation>
        </message>
        <message>
            <location filename="../../engine/text/grammars/trial.py" />
            <source>The constraint of the answer cannot be used: {reason}.</source>
            <translation>Die Vorgabe für die Antwort ist nicht brauchbar: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/grammars/trial.py" />
            <source>The constraint of the answer is too complex.</source>
            <translation>Die Vorgabe für die Antwort ist zu verwickelt.</translation>
        </message>
        <message>
            <location filename="../../engine/text/infill.py" />
            <source>Load a model of code that was, or send the text without a suffix.</source>
            <translation>Laden Sie ein Modell für Programmcode, das dafür gemacht ist, oder senden Sie den Text ohne das, was dahinter steht.</translation>
        </message>
        <message>
            <location filename="../../engine/text/infill.py" />
            <source>This model was not made to fill in the middle of a text.</source>
            <translation>Dieses Modell ist nicht dafür gemacht, die Mitte eines Textes zu ergänzen.</translation>
        </message>
        <message>
            <location filename="../../engine/text/picture_text.py" />
            <source>The model's chat template does not show the pictures of this conversation.</source>
            <translation>Die Chat-Vorlage des Modells zeigt die Bilder dieses Gesprächs nicht.</translation>
        </message>
        <message>
            <location filename="../../engine/text/picture_text.py" />
            <source>The pictures of this conversation cannot be told apart in its tokens.</source>
            <translation>Die Bilder dieses Gesprächs lassen sich in seinen Token nicht unterscheiden.</translation>
        </message>
        <message>
            <location filename="../../engine/text/prompt.py" />
            <source>Give ids from 0 to {most}.</source>
            <translation>Geben Sie Nummern von 0 bis {most} an.</translation>
        </message>
        <message>
            <location filename="../../engine/text/prompt.py" />
            <source>Start a new chat, shorten the message, or load the model with a larger context.</source>
            <translation>Beginnen Sie ein neues Gespräch, kürzen Sie die Nachricht, oder laden Sie das Modell mit größerem Kontext.</translation>
        </message>
        <message>
            <location filename="../../engine/text/prompt.py" />
            <source>The conversation has {count} tokens, and the context holds {room}.</source>
            <translation>Das Gespräch hat {count} Token, und der Kontext fasst {room}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/prompt.py" />
            <source>The prompt ends with a picture.</source>
            <translation>Die Eingabe endet mit einem Bild.</translation>
        </message>
        <message>
            <location filename="../../engine/text/prompt.py" />
            <source>The prompt is empty.</source>
            <translation>Die Eingabe ist leer.</translation>
        </message>
        <message>
            <location filename="../../engine/text/prompt.py" />
            <source>Token id {number} is outside the model's vocabulary.</source>
            <translation>Die Token-Nummer {number} liegt außerhalb des Vokabulars.</translation>
        </message>
        <message>
            <location filename="../../engine/text/prompt.py" />
            <source>Write something behind it.</source>
            <translation>Schreiben Sie etwas dahinter.</translation>
        </message>
        <message>
            <location filename="../../engine/text/template_renderer.py" />
            <source>Repair or install the engine again.</source>
            <translation>Den Rechenprozess reparieren oder neu installieren.</translation>
        </message>
        <message>
            <location filename="../../engine/text/template_renderer.py" />
            <source>The model's chat template was stopped: it took longer than {seconds} seconds.</source>
            <translation>Die Chat-Vorlage des Modells wurde abgebrochen: Sie brauchte mehr als {seconds} Sekunden.</translation>
        </message>
        <message>
            <location filename="../../engine/text/template_renderer.py" />
            <source>The model's chat template was stopped: it took more than {size} MiB of memory.</source>
            <translation>Die Chat-Vorlage des Modells wurde abgebrochen: Sie brauchte mehr als {size} MiB Speicher.</translation>
        </message>
        <message>
            <location filename="../../engine/text/template_renderer.py" />
            <source>The model's chat template was stopped: it wrote more than {count} characters.</source>
            <translation>Die Chat-Vorlage des Modells wurde abgebrochen: Sie schrieb mehr als {count} Zeichen.</translation>
        </message>
        <message>
            <location filename="../../engine/text/template_renderer.py" />
            <source>The process that renders the model's chat template cannot be started: it ended with code {code}.</source>
            <translation>Der Prozess, der die Chat-Vorlage des Modells ausführt, lässt sich nicht starten: Er endete mit Code {code}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/template_renderer.py" />
            <source>The process that renders the model's chat template ended with code {code}.</source>
            <translation>Der Prozess, der die Chat-Vorlage des Modells ausführt, endete mit Code {code}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer.py" />
            <source>Choose another model, or leave the constraint out.</source>
            <translation>Ein anderes Modell wählen oder die Vorgabe weglassen.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer.py" />
            <source>The model has no token that ends an answer, so that no constraint can be kept to.</source>
            <translation>Das Modell hat kein Token, das eine Antwort beendet, und kann darum keine Vorgabe einhalten.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>Choose a model with a tokenizer.json.</source>
            <translation>Wählen Sie ein Modell mit einer tokenizer.json.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>The tokenizer in {folder} cannot be opened: {reason}.</source>
            <translation>Der Tokenizer in {folder} kann nicht geöffnet werden: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>The tokenizer in {folder} has an empty vocabulary.</source>
            <translation>Der Tokenizer in {folder} hat ein leeres Vokabular.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>The tokenizer in {folder} is not of the fast kind.</source>
            <translation>Der Tokenizer in {folder} ist keiner der schnellen Art.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>it brings its own code</source>
            <translation>er bringt eigenen Code mit</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>it lets texts grow beyond measure</source>
            <translation>er lässt Texte ins Maßlose wachsen</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>{file} cannot be read as JSON.</source>
            <translation>{file} kann nicht als JSON gelesen werden.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>{file} is no JSON object</source>
            <translation>{file} ist kein JSON-Objekt</translation>
        </message>
        <message>
            <location filename="../../engine/text/tokenizer_files.py" />
            <source>{folder} holds no tokenizer.</source>
            <translation>{folder} enthält keinen Tokenizer.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tools/grammar.py" />
            <source>Give fewer tools, or simpler parameters.</source>
            <translation>Geben Sie weniger Werkzeuge an, oder einfachere Parameter.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tools/grammar.py" />
            <source>The parameters of the tools are too complex to hold calls to them.</source>
            <translation>Die Parameter der Werkzeuge sind zu verwickelt, um Aufrufe daran zu halten.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tools/schemas.py" />
            <source>Give the JSON schema of an object, nested no deeper than {most} times.</source>
            <translation>Geben Sie das JSON-Schema eines Objekts an, höchstens {most}-mal geschachtelt.</translation>
        </message>
        <message>
            <location filename="../../engine/text/tools/schemas.py" />
            <source>The parameters of the tool '{name}' are no JSON object.</source>
            <translation>Die Parameter des Werkzeugs „{name}“ sind kein JSON-Objekt.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/__main__.py" />
            <source>The installed engine is too old for tools of servers: it has no package '{name}'.</source>
            <translation>Die installierte Engine ist zu alt für Werkzeuge von Servern: Ihr fehlt das Paket „{name}“.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/__main__.py" />
            <source>Update it in Preferences, Engine; from a checkout, run packaging/bootstrap.sh again.</source>
            <translation>Aktualisieren Sie sie in Einstellungen, Engine; in einem Checkout rufen Sie packaging/bootstrap.sh noch einmal auf.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>Addresses of MCP servers often end in /mcp or /sse.</source>
            <translation>Adressen von MCP-Servern enden oft auf /mcp oder /sse.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>Enter a header that says so, such as Authorization, with what its provider gave you.</source>
            <translation>Tragen Sie eine Kopfzeile ein, die es sagt, etwa Authorization mit dem, was der Anbieter Ihnen gab.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>Enter that one, if you trust it.</source>
            <translation>Tragen Sie diese ein, wenn Sie ihr vertrauen.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>It sent a message of more than {size}.</source>
            <translation>Er schickte eine Nachricht von mehr als {size}.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>The address begins with http://: others in the network could read what is sent.</source>
            <translation>Die Adresse beginnt mit http://: Andere im Netz könnten lesen, was gesendet wird.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>The address leads to another one, {address}.</source>
            <translation>Die Adresse führt zu einer anderen, {address}.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>The server asks who is there (HTTP {status}).</source>
            <translation>Der Server fragt, wer da ist (HTTP {status}).</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>The server cannot be reached: {reason}</source>
            <translation>Der Server ist nicht zu erreichen: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>The server knows no such address (HTTP 404).</source>
            <translation>Der Server kennt diese Adresse nicht (HTTP 404).</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>The server refuses (HTTP {status}).</source>
            <translation>Der Server lehnt ab (HTTP {status}).</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>Use https://, or allow it where the server is edited.</source>
            <translation>Verwenden Sie https://, oder erlauben Sie es, wo der Server bearbeitet wird.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/addresses.py" />
            <source>{address} is no address of a server.</source>
            <translation>{address} ist keine Adresse eines Servers.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>It has not answered within {seconds} seconds.</source>
            <translation>Er hat {seconds} Sekunden lang nicht geantwortet.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>The connection has ended.</source>
            <translation>Die Verbindung ist zu Ende.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>The first start of a program may have to download it: try again.</source>
            <translation>Der erste Start eines Programms muss es vielleicht herunterladen: Versuchen Sie es noch einmal.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>The server is not connected.</source>
            <translation>Der Server ist nicht verbunden.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>The server is not understood: {words}</source>
            <translation>Der Server ist nicht zu verstehen: {words}</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>The server refuses the call: {words}</source>
            <translation>Der Server lehnt den Aufruf ab: {words}</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>The server refuses: {words}</source>
            <translation>Der Server lehnt ab: {words}</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>The tool asks for more in the middle of the call, which Coppice does not answer.</source>
            <translation>Das Werkzeug fragt mitten im Aufruf nach mehr, worauf Coppice nicht antwortet.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>The tool has not answered within {minutes} minutes.</source>
            <translation>Das Werkzeug hat {minutes} Minuten lang nicht geantwortet.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/connection.py" />
            <source>What the server sent is no result of a tool.</source>
            <translation>Was der Server schickte, ist kein Ergebnis eines Werkzeugs.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/desk.py" />
            <source>The call failed: {reason}</source>
            <translation>Der Aufruf ist gescheitert: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/programs.py" />
            <source>Install it, or give its full path.</source>
            <translation>Installieren Sie es, oder geben Sie seinen vollen Pfad an.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/programs.py" />
            <source>It closed its output.</source>
            <translation>Er hat seine Ausgabe geschlossen.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/programs.py" />
            <source>The program ended with exit code {code}.</source>
            <translation>Das Programm endete mit dem Exit-Code {code}.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/programs.py" />
            <source>There is no program {command}.</source>
            <translation>Es gibt kein Programm {command}.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/programs.py" />
            <source>{command} could not be started: {reason}</source>
            <translation>{command} konnte nicht gestartet werden: {reason}</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/programs.py" />
            <source>{command} may not be run.</source>
            <translation>{command} darf nicht ausgeführt werden.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/results.py" />
            <source>The tool gave no result.</source>
            <translation>Das Werkzeug gab kein Ergebnis.</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/results.py" />
            <source>[cut: the first {shown} of {total} characters]</source>
            <translation>[gekürzt: die ersten {shown} von {total} Zeichen]</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/results.py" />
            <source>[file, {kind}, {size}]</source>
            <translation>[Datei, {kind}, {size}]</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/results.py" />
            <source>[link: {address}]</source>
            <translation>[Verweis: {address}]</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/results.py" />
            <source>[picture, {kind}, {size}]</source>
            <translation>[Bild, {kind}, {size}]</translation>
        </message>
        <message>
            <location filename="../../engine/tool_servers/results.py" />
            <source>[sound, {kind}, {size}]</source>
            <translation>[Ton, {kind}, {size}]</translation>
        </message>
        <message>
            <location filename="../../engine/trial.py" />
            <source>Measuring this pair</source>
            <translation>Dieses Paar wird gemessen</translation>
        </message>
        <message>
            <location filename="../../engine/weights/codecs/codec.py" />
            <source>There is no weight codec '{name}'.</source>
            <translation>Es gibt keine Verpackung der Gewichte „{name}“.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/codecs/plain.py" />
            <source>Take a checkpoint in float32, bfloat16 or float16.</source>
            <translation>Nehmen Sie ein Modell in float32, bfloat16 oder float16.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/codecs/plain.py" />
            <source>The checkpoint is damaged, or its numbers are too large for 16 bits: download it again, or take another.</source>
            <translation>Das Modell ist beschädigt, oder seine Zahlen sind zu groß für 16 Bit: Laden Sie es noch einmal herunter, oder nehmen Sie ein anderes.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/codecs/plain.py" />
            <source>The prepared model is damaged: prepare it again.</source>
            <translation>Das vorbereitete Modell ist beschädigt: Bereiten Sie es noch einmal vor.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/codecs/plain.py" />
            <source>The stored tensor '{tensor}' {fault}.</source>
            <translation>Der gespeicherte Tensor „{tensor}“ {fault}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/codecs/plain.py" />
            <source>The weight '{tensor}' holds a number that is not finite.</source>
            <translation>Das Gewicht „{tensor}“ enthält eine Zahl, die nicht endlich ist.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/codecs/plain.py" />
            <source>The weight '{tensor}' holds numbers of type {kind}.</source>
            <translation>Das Gewicht „{tensor}“ enthält Zahlen der Art {kind}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/codecs/plain.py" />
            <source>has the shape {shape} and not {wanted}</source>
            <translation>hat die Form {shape} und nicht {wanted}</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>A target of this kind with at most {count} billion parameters stays where it computes: about {rate}.</source>
            <translation>Ein Zielmodell dieser Art mit höchstens {count} Milliarden Parametern bleibt dort, wo es rechnet: etwa {rate}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>A tree cannot pay here, as each token touches other experts: the best, of {nodes}, gives about {rate}, one token per pass {plain}; it is bound by {bound}.</source>
            <translation>Ein Baum kann sich hier nicht lohnen, da jedes Token andere Experten berührt: Der beste, mit {nodes}, gibt etwa {rate}, ein Token je Durchgang {plain}; seine Grenze: {bound}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>A tree cannot pay here: the best, of {nodes}, gives about {rate}, one token per pass {plain}; it is bound by {bound}.</source>
            <translation>Ein Baum kann sich hier nicht lohnen: Der beste, mit {nodes}, gibt etwa {rate}, ein Token je Durchgang {plain}; seine Grenze: {bound}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>A tree of {nodes} gives about {times} times the speed of one token per pass, bound by {bound}.</source>
            <translation>Ein Baum mit {nodes} gibt etwa das {times}-Fache der Geschwindigkeit von einem Token je Durchgang; seine Grenze: {bound}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>How fast these unpack here is assumed.</source>
            <translation>Wie schnell sie hier ausgepackt werden, ist angenommen.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>If it may take {gib} more of memory: about {rate}.</source>
            <translation>Wenn es {gib} mehr Speicher nehmen darf: etwa {rate}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>If other programs leave {gib} more of memory: about {rate}.</source>
            <translation>Wenn andere Programme {gib} mehr Speicher lassen: etwa {rate}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>Pairs differ: the best tree may give {least} to {most} tokens/s.</source>
            <translation>Paare sind verschieden: Der beste Baum bringt vielleicht {least} bis {most} Token/s.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>Seconds of a pass are those that this pair's rounds took.</source>
            <translation>Die Sekunden eines Durchgangs sind die, welche die Runden dieses Paars dauerten.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>Texts differ: its last answers had {least} to {most} tokens per pass.</source>
            <translation>Texte sind verschieden: Seine letzten Antworten hatten {least} bis {most} Token je Durchlauf.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>Texts differ: its last {count} answers came at {least} to {most} tokens/s.</source>
            <translation>Texte sind verschieden: Die letzten {count} Antworten kamen mit {least} bis {most} Token/s.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>The processor computes experts where they lie in RAM: with {size} about {rate}, {times} times as fast as streaming them.</source>
            <translation>Der Prozessor berechnet Experten dort, wo sie im RAM liegen: etwa {rate} ({size}), das {times}-Fache davon, sie zu übertragen.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>Tokens per pass are assumed, as published for another pair.</source>
            <translation>Die Tokens je Durchgang sind angenommen, wie für ein anderes Paar veröffentlicht.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>Tokens per pass are those that this pair's answers have shown.</source>
            <translation>Die Tokens je Durchgang sind die, welche die Antworten dieses Paars gezeigt haben.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>Tokens per pass grow from this pair's own figure as published for another pair.</source>
            <translation>Die Tokens je Durchgang gehen von der eigenen Zahl dieses Paars aus und wachsen, wie für ein anderes Paar veröffentlicht.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>With weights in {bits} bits ({option}): about {rate}.</source>
            <translation>Mit Gewichten in {bits} Bit ({option}): etwa {rate}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>a smaller target</source>
            <translation>ein kleineres Zielmodell</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>arithmetic</source>
            <translation>das Rechnen</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>best tree</source>
            <translation>bester Baum</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>drafting</source>
            <translation>das Entwerfen</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>experts where they lie</source>
            <translation>Experten, wo sie liegen</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>its answers so far</source>
            <translation>den bisherigen Antworten</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>one token per pass</source>
            <translation>ein Token je Durchgang</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>reading single experts</source>
            <translation>das Lesen einzelner Experten</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>small tree</source>
            <translation>kleiner Baum</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>the SSD</source>
            <translation>die SSD</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>the overhead of every layer</source>
            <translation>der Aufwand jeder Schicht</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>the processor, which computes experts</source>
            <translation>der Prozessor, der Experten berechnet</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>the rate of the memory</source>
            <translation>die Rate des Speichers</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>the way from RAM to the GPU</source>
            <translation>der Weg vom RAM zur GPU</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>trees of {nodes}</source>
            <translation>Bäume mit {nodes}</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>weights in 4 bits</source>
            <translation>Gewichte in 4 Bit</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>weights in 8 bits</source>
            <translation>Gewichte in 8 Bit</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>with more memory</source>
            <translation>mit mehr Speicher</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>{rate} tokens/s</source>
            <translation>{rate} Tokens/s</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/advice.py" />
            <source>{rate}, {times} times as fast</source>
            <translation>{rate}, {times}-mal so schnell</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>All {count} layers fit in memory.</source>
            <translation>Alle {count} Schichten passen in den Speicher.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>All {count} layers fit on the GPU.</source>
            <translation>Alle {count} Schichten passen auf die Grafikkarte.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>Of those that stream, all but the experts stays as well, and {size} of the experts in use.</source>
            <translation>Von denen, die geladen werden, bleibt alles außer den Experten ebenfalls dort, und von den benutzten Experten {size}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>Places for {count} layers are given, but the model has {there}.</source>
            <translation>Plätze für {count} Schichten sind angegeben, aber das Modell hat {there}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>embeddings and head</source>
            <translation>Einbettungen und Kopf</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>layers</source>
            <translation>Schichten</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>layers in RAM</source>
            <translation>Schichten im RAM</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>layers in transit</source>
            <translation>Schichten unterwegs</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>layers in transit through RAM</source>
            <translation>Schichten auf dem Weg durch das RAM</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>memory</source>
            <translation>Speicher</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>pictures</source>
            <translation>Bilder</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>snapshots of the context</source>
            <translation>Zwischenstände des Kontexts</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>the context</source>
            <translation>den Kontext</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>the working space of a pass</source>
            <translation>den Arbeitsspeicher eines Durchlaufs</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>unpacking</source>
            <translation>das Auspacken</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>{count} stream from {place}</source>
            <translation>{count} werden geladen ({place})</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>{gib} for {purpose}</source>
            <translation>{gib} für {purpose}</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>{kept} of {count} layers stay in memory; {streamed} stream from SSD.</source>
            <translation>{kept} von {count} Schichten bleiben im Speicher; {streamed} werden von der SSD geladen.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>{kept} of {count} layers stay on the GPU; {streams}.</source>
            <translation>{kept} von {count} Schichten bleiben auf der Grafikkarte; {streams}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/planning/placement.py" />
            <source>{needed} of {memory} would be needed ({parts}), but {free} may be used.</source>
            <translation>{needed} ({memory}) wären nötig ({parts}), aber {free} dürfen benutzt werden.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/disk.py" />
            <source>Check the disk, or download it again.</source>
            <translation>Prüfen Sie die Platte, oder laden Sie sie noch einmal herunter.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/disk.py" />
            <source>Was it changed or moved? Download or prepare the model again.</source>
            <translation>Wurde sie geändert oder verschoben? Laden Sie das Modell noch einmal herunter, oder bereiten Sie es noch einmal vor.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/disk.py" />
            <source>{file} ended {count} bytes early while its weights were read.</source>
            <translation>{file} endete {count} Bytes zu früh, während ihre Gewichte gelesen wurden.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/disk.py" />
            <source>{file} was changed while its weights were in use.</source>
            <translation>{file} wurde geändert, während die Gewichte darin in Gebrauch waren.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/layer_file.py" />
            <source>Prepare it again.</source>
            <translation>Bereiten Sie sie noch einmal vor.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/layer_file.py" />
            <source>Prepare the model again.</source>
            <translation>Bereiten Sie das Modell noch einmal vor.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/layer_file.py" />
            <source>its data do not begin on a page</source>
            <translation>ihre Daten beginnen nicht an einer Seitengrenze</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/layer_file.py" />
            <source>{file} is no layer that was prepared: {reason}.</source>
            <translation>{file} ist keine vorbereitete Schicht: {reason}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/manifest.py" />
            <source>Check the folder of the model.</source>
            <translation>Prüfen Sie den Ordner des Modells.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/manifest.py" />
            <source>Choose another folder.</source>
            <translation>Wählen Sie einen anderen Ordner.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/manifest.py" />
            <source>Delete it, and prepare the model again.</source>
            <translation>Löschen Sie ihn, und bereiten Sie das Modell noch einmal vor.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/manifest.py" />
            <source>Delete the folder, and prepare the model again.</source>
            <translation>Löschen Sie den Ordner, und bereiten Sie das Modell noch einmal vor.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/manifest.py" />
            <source>{file} is a link, which is never followed.</source>
            <translation>{file} ist ein Verweis, dem nie gefolgt wird.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/manifest.py" />
            <source>{folder} holds no prepared model.</source>
            <translation>{folder} enthält kein vorbereitetes Modell.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/manifest.py" />
            <source>{folder} was prepared by another version of Coppice.</source>
            <translation>{folder} wurde von einer anderen Fassung von Coppice vorbereitet.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>Check the disk, or choose another folder for prepared models.</source>
            <translation>Prüfen Sie die Platte, oder wählen Sie einen anderen Ordner für vorbereitete Modelle.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>Choose a new folder, or an empty one.</source>
            <translation>Wählen Sie einen neuen oder leeren Ordner.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>Delete the prepared model, and prepare it again.</source>
            <translation>Löschen Sie das vorbereitete Modell, und bereiten Sie es noch einmal vor.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>Free some space and prepare again: the layers that are finished are kept.</source>
            <translation>Schaffen Sie Platz, und bereiten Sie noch einmal vor: Die fertigen Schichten bleiben.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>Free some space, or choose a folder on another disk.</source>
            <translation>Schaffen Sie Platz, oder wählen Sie einen Ordner auf einer anderen Platte.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>Preparing '{name}' needs {size}, and {there} are free in {folder}.</source>
            <translation>„{name}“ vorzubereiten braucht {size}, und {there} sind in {folder} frei.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>The disk that holds {folder} is full.</source>
            <translation>Die Platte, auf der {folder} liegt, ist voll.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>The files of '{name}' have changed since its preparation began.</source>
            <translation>Die Dateien von „{name}“ haben sich geändert, seit die Vorbereitung begann.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>{folder} holds '{name}', prepared in another way.</source>
            <translation>{folder} enthält „{name}“, anders vorbereitet.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepare.py" />
            <source>{folder} holds other files.</source>
            <translation>{folder} enthält andere Dateien.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepared_model.py" />
            <source>Prepare the model again: what is whole is kept.</source>
            <translation>Bereiten Sie das Modell noch einmal vor: Was heil ist, bleibt.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepared_model.py" />
            <source>Prepare the model first.</source>
            <translation>Bereiten Sie das Modell erst vor.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepared_model.py" />
            <source>The files of '{name}' have changed since it was prepared.</source>
            <translation>Die Dateien von „{name}“ haben sich geändert, seit es vorbereitet wurde.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepared_model.py" />
            <source>{file} has {size} bytes and not {wanted}.</source>
            <translation>{file} hat {size} Bytes und nicht {wanted}.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepared_model.py" />
            <source>{file} holds another layer than its name says.</source>
            <translation>{file} enthält eine andere Schicht, als ihr Name sagt.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepared_model.py" />
            <source>{file} is not as it was written.</source>
            <translation>{file} ist nicht, wie sie geschrieben wurde.</translation>
        </message>
        <message>
            <location filename="../../engine/weights/store/prepared_model.py" />
            <source>{folder} is only partly prepared: {done} of {count} layers.</source>
            <translation>{folder} ist nur zum Teil vorbereitet: {done} von {count} Schichten.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>A dense model for programming in 8 bits, streamed from RAM as it is stored.</source>
            <translation>Ein dichtes Modell zum Programmieren in 8 Bit, strömt aus dem RAM, wie es gespeichert ist.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>A mixture of experts that computes with 3 of its 30 billion parameters at a time: quick for its size, also without a card.</source>
            <translation>Eine Expertenmischung, die jeweils mit 3 ihrer 30 Milliarden Parameter rechnet: schnell für ihre Größe, auch ohne Grafikkarte.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>A mixture of experts that reasons; there is no smaller model with its vocabulary.</source>
            <translation>Eine Mischung von Experten, die nachdenkt; ein kleineres Modell mit ihrem Vokabular gibt es nicht.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>A quick all-rounder, of which a part streams from RAM.</source>
            <translation>Ein schneller Allrounder, von dem ein Teil aus dem RAM strömt.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>As its authors publish it, in 8 bits; streamed from RAM as it is stored.</source>
            <translation>So, wie es veröffentlicht ist, in 8 Bit; es strömt aus dem RAM, wie es gespeichert ist.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Eight bits, a little more than the card holds: the rest streams from RAM.</source>
            <translation>Acht Bit, etwas mehr, als auf die Karte passt: Der Rest strömt aus dem RAM.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Eight bits, nearly as exact as sixteen; what does not fit on the card streams from RAM.</source>
            <translation>Acht Bit, fast so genau wie sechzehn; was nicht auf die Karte passt, strömt aus dem RAM.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Far larger than the card, streamed from RAM, in the variant that most people use.</source>
            <translation>Weit größer als die Karte, strömt aus dem RAM, in der Variante, die die meisten nutzen.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Fits on a card of 8 GB as a whole, beside its draft.</source>
            <translation>Passt ganz auf eine Karte mit 8 GB, neben sein Entwurfsmodell.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Four bits in the format AWQ, with a small draft that leaves room on the card.</source>
            <translation>Vier Bit im Format AWQ, mit einem kleinen Entwurfsmodell, das auf der Karte Platz lässt.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Four bits in the format of bitsandbytes, streamed from RAM as it is stored.</source>
            <translation>Vier Bit im Format von bitsandbytes, strömt aus dem RAM, wie es gespeichert ist.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Four bits of a model whose layers mostly keep a state instead of a cache; a part streams from RAM.</source>
            <translation>Vier Bit eines Modells, dessen Schichten meist einen Zustand statt eines Caches halten; ein Teil strömt aus dem RAM.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Larger than a gaming card: what does not fit streams from RAM.</source>
            <translation>Größer als eine Spielekarte: Was nicht passt, strömt aus dem Arbeitsspeicher.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>Most of its layers keep a state instead of a cache, so long chats stay light; what does not fit on the card streams.</source>
            <translation>Die meisten seiner Schichten halten einen Zustand statt eines Caches, so bleiben lange Gespräche leicht; was nicht auf die Karte passt, strömt.</translation>
        </message>
        <message>
            <location filename="../../resources/suggestions.json" />
            <source>The largest mixture of experts here, drafted for by its smaller sister; trees pay less for those.</source>
            <translation>Die größte Expertenmischung hier, mit der kleineren Schwester als Entwurfsmodell; Bäume lohnen sich dafür weniger.</translation>
        </message>
    </context>
</TS>
