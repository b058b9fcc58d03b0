"""How clients constrain an answer, in the fields of OpenAI's API, llama-server and vLLM, as one `Constraint`."""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.errors import InputError
from engine.protocol.options import MOST_CONSTRAINT, Constraint
from engine.protocol.sentences import say

ConstraintText = Annotated[str, Field(max_length=MOST_CONSTRAINT)]
Schema = dict[str, Any]
_LOOSE = ConfigDict(extra="ignore")


class TextFormat(BaseModel):
    """Any text."""

    model_config = _LOOSE
    type: Literal["text"]


class JsonObject(BaseModel):
    """Any JSON object; with a `schema` (llama-server's) one that it describes."""

    model_config = _LOOSE
    type: Literal["json_object"]
    schema_: Schema | None = Field(None, alias="schema")


class NamedSchema(BaseModel):
    """A JSON schema as chat completions wrap it. It is kept to whether `strict` or not."""

    model_config = _LOOSE
    name: str = Field("", max_length=256)
    description: str | None = Field(None, max_length=65536)
    schema_: Schema | None = Field(None, alias="schema")
    strict: bool | None = None


class JsonSchemaFormat(BaseModel):
    """Chat completions' `json_schema`; `schema` beside it is llama-server's shorter form."""

    model_config = _LOOSE
    type: Literal["json_schema"]
    json_schema: NamedSchema | None = None
    schema_: Schema | None = Field(None, alias="schema")


class FlatSchemaFormat(NamedSchema):
    """`json_schema` in the Responses API."""

    type: Literal["json_schema"]


ResponseFormat = Annotated[TextFormat | JsonObject | JsonSchemaFormat, Field(discriminator="type")]
"""`response_format` of chat completions."""

TextConfigFormat = Annotated[TextFormat | JsonObject | FlatSchemaFormat, Field(discriminator="type")]
"""`text.format` of the Responses API."""


class StructuredOutputs(BaseModel):
    """vLLM's `structured_outputs`: one of these."""

    model_config = _LOOSE
    json_: Schema | ConstraintText | None = Field(None, alias="json")
    regex: ConstraintText | None = None
    choice: list[ConstraintText] | None = Field(None, min_length=1, max_length=4096)
    grammar: ConstraintText | None = None
    json_object: bool | None = None


class ConstraintFields(BaseModel):
    """Fields of a request for a completion; a request's model inherits them. At most one of them may be set."""

    response_format: ResponseFormat | None = None
    grammar: ConstraintText | None = Field(None, description="GBNF, as llama-server takes it, or Lark")
    json_schema: Schema | None = Field(None, description="as llama-server takes it")
    structured_outputs: StructuredOutputs | None = Field(None, description="as vLLM takes it")
    guided_json: Schema | ConstraintText | None = Field(None, description="as earlier vLLM takes it, like those below")
    guided_regex: ConstraintText | None = None
    guided_choice: list[ConstraintText] | None = Field(None, min_length=1, max_length=4096)
    guided_grammar: ConstraintText | None = None

    def constraint(self) -> Constraint | None:
        """What the answer must look like; None for any text. Raises `InputError` where several fields say it."""
        vllm = self.structured_outputs or StructuredOutputs.model_validate({})
        return _only(
            constraint_of_format(self.response_format),
            _grammar(self.grammar),
            _schema(self.json_schema),
            _schema(vllm.json_),
            _regex(vllm.regex),
            _choice(vllm.choice),
            _grammar(vllm.grammar),
            Constraint("json") if vllm.json_object else None,
            _schema(self.guided_json),
            _regex(self.guided_regex),
            _choice(self.guided_choice),
            _grammar(self.guided_grammar),
        )


def constraint_of_format(
    asked: TextFormat | JsonObject | JsonSchemaFormat | FlatSchemaFormat | None,
) -> Constraint | None:
    """Of `response_format`, or `text.format`; None for any text. Raises `InputError` for a schema that is not there."""
    if asked is None or isinstance(asked, TextFormat):
        return None
    if isinstance(asked, JsonObject):
        return _schema(asked.schema_) or Constraint("json")
    wrapped = asked.json_schema.schema_ if isinstance(asked, JsonSchemaFormat) and asked.json_schema else None
    schema = wrapped if wrapped is not None else asked.schema_
    if schema is None:
        raise InputError(say("The format json_schema comes without a schema."), say("Give the schema it names."))
    return _schema(schema)


def _only(*asked: Constraint | None) -> Constraint | None:
    found = [each for each in asked if each is not None]
    if len(found) > 1:
        raise InputError(
            say("The constraint of the answer is given in more than one field."), say("Leave all but one out.")
        )
    return found[0] if found else None


def _schema(schema: Schema | str | None) -> Constraint | None:
    if schema is None:
        return None
    return Constraint("json_schema", schema if isinstance(schema, str) else json.dumps(schema, ensure_ascii=False))


def _regex(pattern: str | None) -> Constraint | None:
    return None if pattern is None else Constraint("regex", pattern)


def _grammar(grammar: str | None) -> Constraint | None:
    """An empty one is none: llama-server's own clients send it. GBNF is told from Lark where it is compiled."""
    return Constraint("gbnf", grammar) if grammar else None


def _choice(texts: list[str] | None) -> Constraint | None:
    """One of the texts, as an enumeration of strings written without their quotes."""
    if texts is None:
        return None
    return Constraint("lark", "start: " + " | ".join(json.dumps(text, ensure_ascii=False) for text in texts))
