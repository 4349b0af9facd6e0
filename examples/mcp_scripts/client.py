import asyncio
import os

from mcp import Client, StdioServerParameters

CALLS: dict[str, dict[str, object]] = {
    "size": {"number": 1.5e9},
    "slug": {"title": "Hello, big World!"},
    "table": {"rows": [{"ada": "3"}]},
}


async def main() -> None:
    server = StdioServerParameters(command="toolrun", args=["serve"], env=dict(os.environ))
    async with Client(server) as client:
        for name, arguments in CALLS.items():
            result = await client.call_tool(name, arguments)
            print(result.content[0].text)  # type: ignore[union-attr]  # these tools answer with text


asyncio.run(main())
