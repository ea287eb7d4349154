"""The calls of the parity table by their names there, over either client. An argument that a call does not know is a TypeError."""

import hashlib
import inspect
import io
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

import pannier
from pannier import aio

#: pannier.Pannier or pannier.aio.Pannier.
Client = Any
Call = Callable[..., Awaitable[Any]]
CALLS: dict[str, Call] = {}


async def got(answer: Any) -> Any:
    """What a call gave, now or when it is awaited."""
    return await answer if inspect.isawaitable(answer) else answer


async def everything(found: Any) -> list[Any]:
    """What an iterator gave."""
    return [one async for one in found] if hasattr(found, "__aiter__") else list(found)


def terms(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as Python says them: `ttl_ms` is `ttl`, a timedelta; `due_at_ms` an instant."""
    said: dict[str, Any] = {}
    for name, value in given.items():
        if name == "due_at_ms":
            said["due_at"] = datetime.fromtimestamp(value / 1000, timezone.utc)
        elif name.endswith("_ms"):
            said[name[:-3]] = timedelta(milliseconds=value)
        elif name == "retry":
            said[name] = pannier.RetryPolicy(**terms(value))
        elif name == "cap":
            said[name] = pannier.CapGate(**value)
        elif name == "limiter":
            said[name] = pannier.Limiter(**terms(value))
        elif name == "retention":
            said[name] = pannier.Retention(**terms(value))
        else:
            said[name] = value
    return said


def call(name: str) -> Callable[[Call], Call]:
    """Is the call of this name."""

    def named(function: Call) -> Call:
        CALLS[name] = function
        return function

    return named


def simple(name: str, attribute: str | None = None, key: str | None = None) -> None:
    """A call whose arguments are those of the client's method; `key`: what the bare value it gives is called in the table."""
    area, method = name.split(".")

    async def plain(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
        value = await got(getattr(getattr(client, area), attribute or method)(**terms(given)))
        return value if key is None else {key: value}

    CALLS[name] = plain


simple("dedup.claim")
simple("dedup.claim_once", key="claimed")
for one in ("get", "advance", "touch"):
    simple(f"conversations.{one}")
simple("conversations.reset", key="existed")
for one in ("consume", "confirm", "refund", "peek", "get_policy"):
    simple(f"caps.{one}")
simple("caps.note_inbound", key="open_until")
simple("caps.list_policies", key="policies")
simple("caps.delete_policy", key="deleted")
for one in ("enqueue", "cancel", "reschedule", "promote", "configure", "purge"):
    simple(f"schedule.{one}")
for one in ("retry_dead", "delete_dead"):
    simple(f"schedule.{one}", key="count")
simple("schedule.resume", key="resumed")
for one in ("rollback", "restore"):
    simple(f"blobs.{one}")
simple("blobs.generations", key="generations")
simple("blobs.delete", key="deleted")
simple("sessions.restore")
simple("sessions.delete", key="deleted")
simple("sessions.break_lease", key="broken")


@call("dedup.claim_batch")
async def claim_batch(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    items = [pannier.ClaimItem(**item) for item in given.pop("items")]
    return {"items": await got(client.dedup.claim_batch(items, **terms(given)))}


@call("dedup.complete")
async def complete(_: Client, given: dict[str, Any], results: dict[str, Any]) -> Any:
    return await got(results[given.pop("claim")].complete(**terms(given)))


@call("dedup.extend")
async def extend(_: Client, given: dict[str, Any], results: dict[str, Any]) -> Any:
    return await got(results[given.pop("claim")].extend(**terms(given)))


@call("dedup.release")
async def release(_: Client, given: dict[str, Any], results: dict[str, Any]) -> Any:
    return await got(results[given.pop("claim")].release(**terms(given)))


@call("conversations.list")
async def conversations(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return {"conversations": sorted(await everything(client.conversations.list(**given)), key=lambda one: str(one.id))}


@call("caps.set_policy")
async def set_policy(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    rest = {name: given.pop(name) for name in ("name", "scope", "fail_open") if name in given}
    if "preset" in given:
        rule = given.pop("preset")
        assert not given
    else:
        kinds = {"fixed": pannier.Fixed, "rolling": pannier.Rolling, "gcra": pannier.Gcra, "unique": pannier.Unique}
        kind = kinds[given.pop("algorithm")]
        unlimited = {"limit": None} if given.pop("unlimited", False) else {}
        rule = kind(**terms(given), **unlimited)
    return await got(client.caps.set_policy(rule=rule, **rest))


@call("schedule.enqueue_batch")
async def enqueue_batch(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    jobs = [pannier.JobSpec(**terms(job)) for job in given.pop("jobs")]
    return {"jobs": await got(client.schedule.enqueue_batch(jobs=jobs, **given))}


@call("schedule.ingest")
async def ingest(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    items = [pannier.IngestItem(**terms(item)) for item in given.pop("items")]
    return {"items": await got(client.schedule.ingest(items=items, **given))}


def or_missing(found: Any) -> Any:
    """What is there, or that nothing is."""
    return {"exists": False} if found is None else {"exists": True, **fields(found)}


@call("schedule.get")
async def get_job(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return or_missing(await got(client.schedule.get(**given)))


@call("schedule.get_queue")
async def get_queue(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return or_missing(await got(client.schedule.stats(**given)))


@call("schedule.list")
async def jobs(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return {"ids": [job.id for job in await everything(client.schedule.list(**given))]}


@call("schedule.pause")
async def pause(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    duration = {"duration": timedelta(milliseconds=given.pop("for_ms"))} if "for_ms" in given else {}
    return {"paused_until": await got(client.schedule.pause(**given, **duration))}


@call("schedule.work")
async def work(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    """A worker until so many jobs have ended so."""
    queue, wanted, how = given.pop("queue"), given.pop("jobs"), given.pop("how")
    result, error, after = given.pop("result", None), given.pop("error", "no"), given.pop("after_ms", 0)
    assert not given
    ran: list[Any] = []

    def end(job: Any) -> Any:
        ran.append(job)
        if how == "done":
            return result
        wait = timedelta(milliseconds=after)
        raise {"fail": pannier.FailJob(error), "retry": ValueError(error), "release": pannier.ReleaseJob(wait)}[how]

    async def later(job: Any) -> Any:
        return end(job)

    handler = later if isinstance(client, aio.Pannier) else end
    worker = client.worker(queue, handler, on_event=lambda _: None)
    try:
        for _wait in range(2000):
            if len(ran) >= wanted:
                break
            await got(worker.wait(timeout=timedelta(milliseconds=10)))
    finally:
        await got(worker.close())
    return {"jobs": ran}


@call("schedule.cron_upsert")
async def cron_upsert(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    if "template" in given:
        given["template"] = pannier.JobContent(**terms(given["template"]))
    return await got(client.schedule.cron.upsert(**terms(given)))


@call("schedule.cron_delete")
async def cron_delete(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return {"deleted": await got(client.schedule.cron.delete(**given))}


@call("schedule.cron_list")
async def cron_list(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return {"crons": sorted(await everything(client.schedule.cron.list(**given)), key=lambda one: str(one.id))}


@call("blobs.save")
async def save(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return await got(client.blobs.save(source=io.BytesIO(given.pop("content").encode()), **given))


@call("blobs.read")
async def read(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    content = b"".join(await everything(client.blobs.read(**given)))
    return {"size": len(content), "sha256": hashlib.sha256(content).digest()}


@call("blobs.stat")
async def stat(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    status = await got(client.blobs.stat(**given))
    return {"exists": status.blob is not None, **fields(status)}


@call("blobs.list")
async def blobs(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return {"blobs": await everything(client.blobs.list(**given))}


@call("blobs.deleted")
async def deleted_blobs(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return {"archives": await everything(client.blobs.deleted(**given))}


@call("sessions.open")
async def open_session(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    """Opened, and released again."""
    opened = client.sessions.open(**given)
    if isinstance(client, aio.Pannier):
        async with opened:
            return {}
    with opened:
        return {}


@call("sessions.commit")
async def commit(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    puts = [pannier.Put(**{**put, "value": put["value"].encode()}) for put in given.pop("puts", [])]
    deletes = [(gone["type"], gone["id"]) for gone in given.pop("deletes", [])]
    return await got(client.sessions.commit(puts=puts, deletes=deletes, **given))


@call("sessions.get")
async def get_records(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return await got(client.sessions.get(**given))


@call("sessions.records")
async def records(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    found = await everything(client.sessions.records(**given))
    return {"records": sorted(found, key=lambda one: (one.type, one.id))}


@call("sessions.info")
async def info(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return or_missing(await got(client.sessions.info(**given)))


@call("sessions.list")
async def sessions(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return {"sessions": await everything(client.sessions.list(**given))}


@call("sessions.deleted")
async def deleted_sessions(client: Client, given: dict[str, Any], _: dict[str, Any]) -> Any:
    return {"archives": await everything(client.sessions.deleted(**given))}


def fields(value: Any) -> dict[str, Any]:
    """What an answer says: its public attributes that are no methods."""
    names = [name for name in dir(value) if not name.startswith("_")]
    return {name: given for name in names if not callable(given := getattr(value, name))}
