"""The words of the window in the person's language, through Qt's own translation files."""

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from app.system.paths import resource

LANGUAGES = ("en", "de")
CONTEXT = "Coppice"


def tr(text: str, n: int = -1) -> str:
    """`text` as it is shown; `%n` in it stands for the count `n`, and chooses between singular and plural.

    The text must stand here as it is, or in a `mark` or `say`: `packaging/translations.py` finds it by that.
    """
    return QCoreApplication.translate(CONTEXT, text, None, n)


def language_of(wanted: str) -> str:
    """The language to show: the one that is wanted, else the first of the system's that there is, else English."""
    if wanted in LANGUAGES:
        return wanted
    spoken = (QLocale(each).name().partition("_")[0] for each in QLocale.system().uiLanguages())
    return next((each for each in spoken if each in LANGUAGES), "en")


def install(application: QCoreApplication, language: str) -> tuple[QTranslator, ...]:
    """Show everything in a language from now on: our words, those of Qt's own dialogs, and numbers.

    Widgets take the way to write numbers when they are made, whatever the system's is.
    The returned translators belong to the application; tests take them off again.
    """
    ours, qts = QTranslator(application), QTranslator(application)
    folder = QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath)
    loaded = (
        (ours, ours.load(f"coppice_{language}", str(resource("translations")))),
        (qts, qts.load(f"qtbase_{language}", folder)),
    )
    found = tuple(each for each, is_loaded in loaded if is_loaded)
    for each in found:
        application.installTranslator(each)
    QLocale.setDefault(QLocale(language))
    return found
