"""A real MCP server, made with the SDK: over its input and output, or with `http PORT` or `sse PORT` over HTTP."""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

server = MCPServer("stub", version="1")


@server.tool(title="Adds", annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


@server.tool(structured_output=False)
def fail() -> str:
    """Fails."""
    raise ValueError("no such thing")


@server.tool(structured_output=False)
def show() -> CallToolResult:
    """Answers with a part of every kind."""
    return CallToolResult(
        content=[
            TextContent(text="Look:"),
            ImageContent(data="AAAA" * 4000, mime_type="image/png"),
            AudioContent(data="AA==", mime_type="audio/wav"),
            ResourceLink(name="page", uri="file:///page"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///text", text="inside")),
            EmbeddedResource(resource=BlobResourceContents(uri="file:///blob", blob="AAAA")),
        ]
    )


@server.tool(structured_output=False)
def structured() -> CallToolResult:
    """Answers with structured content and no text."""
    return CallToolResult(content=[], structured_content={"found": ["ä", 2]})


@server.tool(structured_output=False)
def speak(characters: int) -> str:
    """Answers with so many characters."""
    return "x" * characters


@server.tool(structured_output=False)
async def wait(seconds: float, mark: str, ctx: Context) -> str:
    """Waits, tells how far it is, and writes into a file what became of it."""
    with Path(mark).open("a", encoding="utf-8") as file:
        try:
            for step in range(10):
                await ctx.report_progress(step, 10, f"step {step}")
                file.write("step\n")
                file.flush()
                await anyio.sleep(seconds / 10)
        except BaseException:
            file.write("stopped\n")
            raise
    return "waited"


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Has another tool from now on, and says so."""
    server.add_tool(add, name="grown")
    await ctx.notify_tools_changed()  # to those who listen, as the newest protocol has it
    await ctx.session.send_tool_list_changed()  # to all others
    return "grown"


@server.tool(structured_output=False)
def variables() -> str:
    """Which variables its process has."""
    return " ".join(sorted(os.environ))


@server.tool(structured_output=False)
def die() -> str:
    """Ends its process with a last word."""
    sys.stderr.write("killed by a tool\n")
    sys.stderr.flush()
    os._exit(7)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        way, port = sys.argv[1], int(sys.argv[2])
        server.run("sse" if way == "sse" else "streamable-http", port=port)
    else:
        server.run()
