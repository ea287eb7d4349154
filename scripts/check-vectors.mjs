#!/usr/bin/env node
// Recomputes tests/vectors/*.json with node:crypto alone and fails on any difference: a second implementation of format v1,
// written from the design and not from the Rust code. Run: node scripts/check-vectors.mjs
import { createCipheriv, createDecipheriv, createHmac } from "node:crypto";
import { readFileSync } from "node:fs";

const unhex = (text) => Buffer.from(text, "hex");
const hmac = (key, ...parts) => parts.reduce((mac, part) => mac.update(part), createHmac("sha256", key)).digest();
const u32 = (number) => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(number);
  return bytes;
};
const u64 = (number) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(number));
  return bytes;
};
const lp = (part) => {
  const bytes = Buffer.from(part);
  return Buffer.concat([u32(bytes.length), bytes]);
};
const context = (kind, ...parts) => Buffer.concat([lp(kind), ...parts.map(lp)]);

// RFC 5869, the expand step alone: the keys are uniformly random already.
function expand(key, info, length) {
  const blocks = [];
  for (let n = 1, previous = Buffer.alloc(0); blocks.length * 32 < length; n += 1) {
    previous = hmac(key, previous, info, Buffer.of(n));
    blocks.push(previous);
  }
  return Buffer.concat(blocks).subarray(0, length);
}
const derive = (key, label) => expand(key, Buffer.from(label), 32);

function okm(key, header) {
  const bytes = expand(key, Buffer.concat([Buffer.from("pannier/v1/okm"), header]), 76);
  return { recordKey: bytes.subarray(0, 32), nonce: bytes.subarray(32, 44), commitment: bytes.subarray(44) };
}

function seal(header, key, ctx, body) {
  const { recordKey, nonce, commitment } = okm(key, header);
  const cipher = createCipheriv("aes-256-gcm", recordKey, nonce).setAAD(Buffer.concat([header, ctx]));
  return Buffer.concat([header, commitment, cipher.update(body), cipher.final(), cipher.getAuthTag()]);
}

function open(headerLength, key, ctx, sealed) {
  const header = sealed.subarray(0, headerLength);
  const { recordKey, nonce, commitment } = okm(key, header);
  if (!commitment.equals(sealed.subarray(headerLength, headerLength + 32))) throw new Error("another key's commitment");
  const decipher = createDecipheriv("aes-256-gcm", recordKey, nonce)
    .setAAD(Buffer.concat([header, ctx]))
    .setAuthTag(sealed.subarray(-16));
  return Buffer.concat([decipher.update(sealed.subarray(headerLength + 32, -16)), decipher.final()]);
}

const recordHeader = ({ flags = 0, epoch = 0, revision = 0, salt }) =>
  Buffer.concat([Buffer.of(0x50, 1, 1, flags), u32(epoch), u64(revision), unhex(salt)]);
const wrapHeader = ({ kek_id: id, epoch, salt }) =>
  Buffer.concat([Buffer.of(0x50, 1, 0x81, 0), u32(id), u32(epoch), unhex(salt)]);

const TYPES = [
  "creds", "pre-key", "session", "sender-key", "sender-key-memory", "app-state-sync-key", "app-state-sync-version",
  "lid-mapping", "device-list", "tctoken", "identity-key",
];
function typeCode(nameKey, type) {
  const known = TYPES.indexOf(type);
  return known >= 0 ? Buffer.of(known + 1) : Buffer.concat([Buffer.of(255), hmac(nameKey, lp(type)).subarray(0, 8)]);
}
const framed = ({ type, id, kind, value }) => Buffer.concat([lp(type), lp(id), Buffer.of(kind), unhex(value)]);

let checks = 0;
const failures = [];
const read = (name) => JSON.parse(readFileSync(new URL(`../tests/vectors/${name}.json`, import.meta.url), "utf8"));
function same(where, computed, expected) {
  checks += 1;
  const value = Buffer.isBuffer(computed) ? computed.toString("hex") : computed;
  if (value !== expected) failures.push(`${where}: computed ${value}, the file has ${expected}`);
}
function bothWays(where, header, key, ctx, body, expected) {
  same(`${where} sealed`, seal(header, key, ctx, body), expected);
  try {
    same(`${where} opened`, open(header.length, key, ctx, unhex(expected)), body.toString("hex"));
  } catch (error) {
    failures.push(`${where} does not open: ${error.message}`);
  }
}

const owners = read("owners");
for (const { kind, namespace, name, tag, text, bucket } of owners.owners) {
  const hashed = kind === "blob" ? "session" : kind;
  const mac = hmac(unhex(owners.index_key), "pannier/v1/owner", lp(hashed), lp(namespace), lp(name)).subarray(0, 16);
  same(`owner ${kind} ${name} tag`, mac, tag);
  same(`owner ${kind} ${name} text`, mac.toString("base64url"), text);
  same(`owner ${kind} ${name} bucket`, mac[0] & 63, bucket);
}

const names = read("names");
const nameKey = derive(unhex(names.root_key), "pannier/v1/name");
same("k_name", nameKey, names.k_name);
for (const { type, id, type_code: code, name, field } of names.records) {
  const mac = hmac(nameKey, lp(type), lp(id)).subarray(0, 16);
  same(`type ${type}`, typeCode(nameKey, type), code);
  same(`name ${type} ${id}`, mac, name);
  same(`field ${type} ${id}`, Buffer.concat([typeCode(nameKey, type), mac]), field);
}

for (const payload of read("payloads").payloads) same(`payload ${payload.type}`, framed(payload), payload.plaintext);

const records = read("records");
const recordKey = derive(unhex(records.root_key), "pannier/v1/record");
same("k_record", recordKey, records.k_record);
for (const record of records.records) {
  const where = `record ${record.about}`;
  const ctx = context(record.context_kind, ...record.context_parts);
  same(`${where} context`, ctx, record.context);
  if (record.flags === 0) same(`${where} body`, record.body, record.plaintext);
  bothWays(where, recordHeader(record), recordKey, ctx, unhex(record.body), record.envelope);
}

for (const entry of read("wrapped").wrapped) {
  const where = `wrapped ${entry.context_kind} under ${entry.kek_id}`;
  const key = derive(unhex(entry.kek), "pannier/v1/wrap");
  same(`${where} k_wrap`, key, entry.k_wrap);
  const ctx = context(entry.context_kind, ...entry.context_parts);
  bothWays(where, wrapHeader(entry), key, ctx, unhex(entry.root_key), entry.wrapped);
}

const indexNames = read("index-names");
const indexNameKey = derive(unhex(indexNames.index_key), "pannier/v1/index-name");
same("k_index_name", indexNameKey, indexNames.k_index_name);
for (const entry of indexNames.names) {
  const where = `index name ${entry.name}`;
  const plaintext = Buffer.concat([lp(entry.namespace), lp(entry.name)]);
  const ctx = context("owner-name", unhex(entry.tag));
  same(`${where} plaintext`, plaintext, entry.plaintext);
  same(`${where} context`, ctx, entry.context);
  bothWays(where, recordHeader(entry), indexNameKey, ctx, plaintext, entry.envelope);
}

for (const entry of read("canaries").canaries) {
  const where = `canary ${entry.kek_id}`;
  const key = derive(unhex(entry.kek), "pannier/v1/canary");
  const ctx = context("canary", String(entry.kek_id));
  same(`${where} k_canary`, key, entry.k_canary);
  same(`${where} plaintext`, Buffer.from("pannier"), entry.plaintext);
  same(`${where} context`, ctx, entry.context);
  bothWays(where, recordHeader(entry), key, ctx, Buffer.from("pannier"), entry.envelope);
}

const bodies = read("blob-bodies");
const blobKey = derive(unhex(bodies.root_key), "pannier/v1/blob");
same("k_blob", blobKey, bodies.k_blob);
for (const body of bodies.bodies) {
  const where = `blob body ${body.about}`;
  const ctx = context(body.context_kind, ...body.context_parts);
  same(`${where} context`, ctx, body.context);
  const header = Buffer.concat([Buffer.of(0x50, 1, 2, 0), u32(body.epoch), u64(body.generation), unhex(body.salt)]);
  const bytes = expand(blobKey, Buffer.concat([Buffer.from("pannier/v1/okm"), header]), 71);
  same(`${where} preamble`, Buffer.concat([header, bytes.subarray(39)]), body.preamble);
  body.segments.forEach(({ plaintext, sealed }, place) => {
    const last = place + 1 === body.segments.length ? 1 : 0;
    const nonce = Buffer.concat([bytes.subarray(32, 39), u32(place), Buffer.of(last)]);
    const cipher = createCipheriv("aes-256-gcm", bytes.subarray(0, 32), nonce).setAAD(Buffer.concat([header, ctx]));
    const made = Buffer.concat([cipher.update(unhex(plaintext)), cipher.final(), cipher.getAuthTag()]);
    same(`${where} segment ${place}`, made, sealed);
  });
}

for (const failure of failures) console.error(failure);
console.log(`${checks} values recomputed, ${failures.length} differ`);
// Files that lost their entries must not pass.
process.exitCode = failures.length === 0 && checks >= 152 ? 0 : 1;
