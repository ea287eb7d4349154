"""The bill of materials: by its schema, and against what Cargo.lock pins."""

import json
import re
import subprocess

import jsonschema
from conftest import ROOT
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7


def sbom():
    return subprocess.run([ROOT / "scripts/sbom"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=120).stdout


def test_the_bill_of_materials_follows_the_schema(tools):
    folder = tools / "cyclonedx/schema/_res"
    registry = Registry()
    for name in ("spdx", "jsf-0.82"):
        contents = json.loads((folder / f"{name}.SNAPSHOT.schema.json").read_text())
        resource = Resource.from_contents(contents, default_specification=DRAFT7)
        registry = registry.with_resources([(f"{contents['$id']}", resource), (f"{name}.SNAPSHOT.schema.json", resource)])
    schema = json.loads((folder / "bom-1.5.SNAPSHOT.schema.json").read_text())
    validator = jsonschema.Draft7Validator(schema, registry=registry)
    told = json.loads(sbom())
    assert [error.message for error in validator.iter_errors(told)] == []
    del told["components"][0]["name"]
    assert list(validator.iter_errors(told)), "the schema finds a slip"


def test_it_names_what_is_built_in_and_nothing_else():
    told = json.loads(sbom())
    names = {component["name"] for component in told["components"]}
    assert {"tonic", "redis", "aes-gcm", "rustls", "zstd-sys"} <= names
    assert not {"proptest", "rcgen", "pannier"} & names
    lock = (ROOT / "Cargo.lock").read_text()
    pinned = set(re.findall(r'name = "([^"]+)"\nversion = "([^"]+)"\nsource', lock))
    assert {(component["name"], component["version"]) for component in told["components"]} <= pinned
    for component in told["components"]:
        assert component["hashes"][0]["content"] in lock and component["licenses"][0]["expression"], component["name"]
    references = {component["purl"] for component in told["components"]} | {told["metadata"]["component"]["purl"]}
    assert references == {one["ref"] for one in told["dependencies"]}


def test_the_same_sources_give_the_same_bytes():
    assert sbom() == sbom()
