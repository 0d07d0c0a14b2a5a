"""Validates JSON by JSON Schemas of draft 2020-12.

The first line of its input is a document with definitions. Each further one is a list of a schema, which is read as if
it stood in that document, and a value; the answer is one line, a list of messages.
"""

import json
import sys

from jsonschema import Draft202012Validator as Validator

document = json.loads(sys.stdin.readline())
Validator.check_schema(document)
validators = {}
for line in sys.stdin:
    schema, value = json.loads(line)
    key = json.dumps(schema)
    if key not in validators:
        Validator.check_schema(schema)
        validators[key] = Validator({**document, **schema})
    mistakes = [f"{mistake.json_path}: {mistake.message}" for mistake in validators[key].iter_errors(value)]
    print(json.dumps(mistakes), flush=True)
