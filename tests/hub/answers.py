"""What the loopback hub answers, without faults: from a request to a status, headers and a body."""

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from tests.hub.repo import Repo

INVALID_TOKEN = "Invalid credentials in Authorization header"
_API = re.compile(r"/api/models/(?P<id>[^/]+/[^/]+)(?:/(?P<kind>revision|tree)/(?P<revision>[^/]+))?")
_RESOLVE = re.compile(r"/(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Question:
    """One request. `url` is path and query; `token` what came as bearer, or empty."""

    server: str
    method: str
    url: str
    headers: dict[str, str]
    token: str

    @property
    def path(self) -> str:
        """The path alone, still quoted."""
        return urlsplit(self.url).path

    @property
    def query(self) -> dict[str, list[str]]:
        """The query's values by name."""
        return parse_qs(urlsplit(self.url).query)

    def first(self, name: str) -> str:
        """The first value of that name in the query, or nothing."""
        return self.query.get(name, [""])[0]


@dataclass(frozen=True, slots=True)
class Answer:
    """One response; `is_file` when the body is a file of a repository, of which ranges can be asked."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    is_file: bool = False


@dataclass
class Catalogue:
    """Everything the hub knows: its models, the tokens it issued (with the user's name), and its two addresses."""

    repos: dict[str, Repo] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    endpoint: str = ""
    cdn: str = ""

    def answer(self, question: Question) -> Answer:
        """The right answer to a question, on either server."""
        if question.server == "cdn":
            return self._stored(question)
        if question.token and question.token not in self.tokens:
            return _refusal(401, "", INVALID_TOKEN)
        if question.path == "/api/whoami-v2":
            return self._who(question)
        if question.path == "/api/models":
            return self._listing(question)
        match = _API.fullmatch(question.path) or _RESOLVE.fullmatch(question.path)
        return self._about_repo(question, match) if match else _refusal(404, "", "Not found")

    def _about_repo(self, question: Question, match: re.Match[str]) -> Answer:
        name, revision = match["id"], unquote(match["revision"] or "main")
        if name in self.renamed:
            return _moved(question.url.replace(name, self.renamed[name], 1))
        repo = self.repos.get(name)
        if repo is None or not self._knows(repo, question):
            return _unknown(question)
        if not repo.has_revision(revision):
            return _refusal(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        if match.re is _RESOLVE:
            return self._refused(repo, question) or self._resolved(repo, unquote(match["file"]))
        if match["kind"] == "tree":
            return self._refused(repo, question) or _json([repo.tree_entry(each) for each in sorted(repo.files)])
        return _json(repo.info(blobs=question.first("blobs").lower() in ("true", "1")))

    def _who(self, question: Question) -> Answer:
        if not question.token:
            return _refusal(401, "", "Invalid username or password.")
        return _json({"type": "user", "name": self.tokens[question.token], "auth": {"type": "access_token"}})

    def _listing(self, question: Question) -> Answer:
        words, author, tags = question.first("search").lower(), question.first("author"), question.query.get("filter")
        found = [
            repo
            for repo in self.repos.values()
            if words in repo.id.lower()
            and (not author or repo.id.startswith(f"{author}/"))
            and set(tags or ()) <= set(repo.info()["tags"])
            and self._knows(repo, question)
        ]
        if question.first("sort"):
            found.sort(key=lambda repo: -repo.downloads)
        start, limit = int(question.first("cursor") or 0), int(question.first("limit") or _PAGE)
        headers = {}
        if start + limit < len(found):
            query = urlencode(question.query | {"cursor": [str(start + limit)]}, doseq=True)
            headers["Link"] = f'<{self.endpoint}/api/models?{query}>; rel="next"'
        return _json([repo.info() for repo in found[start : start + limit]], headers)

    def _resolved(self, repo: Repo, name: str) -> Answer:
        if name not in repo.files:
            return _refusal(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": repo.commit})
        etag = f'"{repo.etag(name)}"'
        headers = {"X-Repo-Commit": repo.commit, "Accept-Ranges": "bytes"}
        if not repo.is_lfs(name):
            return Answer(200, repo.files[name], headers | {"ETag": etag}, is_file=True)
        headers |= {
            "X-Linked-Etag": etag,
            "X-Linked-Size": str(len(repo.files[name])),
            "Location": f"{self.cdn}/{quote(repo.id)}/{quote(name)}?signature=secret",
        }
        return Answer(302, b"Found", headers)

    def _stored(self, question: Question) -> Answer:
        """The content network: knows addresses, not users; it refuses a request that carries two credentials."""
        owner, model, name = question.path.removeprefix("/").split("/", 2)
        repo = self.repos.get(f"{owner}/{model}")
        if question.token:
            return Answer(400, b"Only one auth mechanism allowed")
        if repo is None or unquote(name) not in repo.files or not question.first("signature"):
            return Answer(403, b"Access denied")
        name = unquote(name)
        headers = {"ETag": f'"{repo.etag(name)[:32]}-7"', "Accept-Ranges": "bytes"}  # storage counts parts, not content
        return Answer(200, repo.files[name], headers, is_file=True)

    def _knows(self, repo: Repo, question: Question) -> bool:
        return not repo.private or repo.access.get(question.token) == "accepted"

    def _refused(self, repo: Repo, question: Question) -> Answer | None:
        """Why the files of a gated model are not handed out, in the hub's own words; None if they are."""
        if repo.disabled:
            return _refusal(403, "", "Access to this resource is disabled.")
        if not repo.gated or repo.access.get(question.token) == "accepted":
            return None
        if not question.token:
            words = "You must have access to it and be authenticated to access it. Please log in."
            return _refusal(401, "GatedRepo", f"Access to model {repo.id} is restricted. {words}")
        words = {
            "pending": f"Your request to access model {repo.id} is awaiting a review from the repo authors.",
            "rejected": f"Your request to access model {repo.id} has been rejected by the repo's authors.",
        }.get(
            repo.access.get(question.token, ""),
            f"Access to model {repo.id} is restricted and you are not in the authorized list. "
            f"Visit {self.endpoint}/{repo.id} to ask for access.",
        )
        return _refusal(403, "GatedRepo", words)


def _json(value: Any, headers: dict[str, str] | None = None) -> Answer:
    return Answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"} | (headers or {}))


def _moved(url: str) -> Answer:
    return Answer(307, b"Temporary Redirect", {"Location": url})


def _unknown(question: Question) -> Answer:
    """The hub does not tell a stranger whether a private model exists."""
    if question.token:
        return _refusal(404, "RepoNotFound", "Repository not found")
    return _refusal(401, "RepoNotFound", "Invalid username or password.")


def _refusal(code: int, error: str, message: str, headers: dict[str, str] | None = None) -> Answer:
    named = {"X-Error-Message": message} | ({"X-Error-Code": error} if error else {}) | (headers or {})
    return Answer(code, json.dumps({"error": message}).encode(), named | {"Content-Type": "application/json"})
