// Carries messages and receipts between the bots and the simulated phones.
import {
  type BinaryNode,
  encodeBigEndian,
  getAllBinaryNodeChildren,
  getBinaryNodeChild,
  getBinaryNodeChildren,
  isJidGroup,
  KEY_BUNDLE_TYPE,
  xmppPreKey,
  xmppSignedPreKey,
} from 'baileys'
import { Companion } from './companion.js'
import type { Directory } from './directory.js'
import { type Outgoing, Phone, type Sealed } from './phone.js'

const now = (): string => String(Math.floor(Date.now() / 1000))

/** The stanza in which a bot gets a phone's message. */
export function messageStanza(phone: Phone, bot: Companion, { id, group, retry, sealed }: Outgoing): BinaryNode {
  const own = phone.account === bot.account
  const { account } = phone
  const addressing: BinaryNode['attrs'] = group
    ? group.addressingMode === 'lid'
      ? { from: group.jid, participant: account.lidJid(), participant_pn: account.pn(), addressing_mode: 'lid' }
      : { from: group.jid, participant: account.pn(), participant_lid: account.lidJid(), addressing_mode: 'pn' }
    : { from: account.pn(), ...(own ? { category: 'peer' } : { sender_lid: account.lidJid() }) }
  return {
    tag: 'message',
    attrs: { ...addressing, id, type: 'text', t: now(), notify: account.phoneNumber },
    content: sealed.map(({ type, ciphertext }) => ({
      tag: 'enc',
      attrs: { v: '2', type, ...(retry > 0 && { count: String(retry) }) },
      content: ciphertext,
    })),
  }
}

const sealedParts = (nodes: BinaryNode[]): Sealed[] =>
  nodes.filter(({ content }) => content instanceof Uint8Array)
    .map(({ attrs, content }) => ({ type: String(attrs['type']), ciphertext: content as Uint8Array }))

/** Hands a bot's message to every simulated phone that it is for. */
export async function routeMessage(directory: Directory, bot: Companion, stanza: BinaryNode): Promise<void> {
  const to = String(stanza.attrs['to'])
  const forAll = sealedParts(getBinaryNodeChildren(stanza, 'enc'))
  const group = isJidGroup(to) ? directory.group(to) : undefined
  const parts = new Map<Phone, Sealed[]>()
  const add = (jid: string, sealed: Sealed[]) => {
    const device = directory.findDevice(jid)
    if (device instanceof Phone) parts.set(device, [...(parts.get(device) ?? []), ...sealed])
  }
  for (const recipient of getBinaryNodeChildren(getBinaryNodeChild(stanza, 'participants'), 'to')) {
    add(String(recipient.attrs['jid']), sealedParts(getBinaryNodeChildren(recipient, 'enc')))
  }
  if (!group) add(to, forAll)
  else if (stanza.attrs['participant']) add(stanza.attrs['participant'], forAll)
  else for (const member of group.members) if (member !== bot.account) add(member.pn(), forAll)

  await Promise.all([...parts].map(async ([phone, sealed]) => {
    if (!sealed.length) return
    const id = String(stanza.attrs['id'])
    const read = await phone.receive(bot.jid, id, sealed, group?.jid)
    bot.deliver(read ? deliveryReceipt(phone, id, group?.jid) : await retryReceipt(phone, id, group?.jid))
  }))
}

const receiptAttrs = (phone: Phone, id: string, group: string | undefined): BinaryNode['attrs'] =>
  group ? { from: group, participant: phone.account.lidJid(), id, t: now() } : { from: phone.account.pn(), id, t: now() }

const deliveryReceipt = (phone: Phone, id: string, group: string | undefined): BinaryNode =>
  ({ tag: 'receipt', attrs: receiptAttrs(phone, id, group) })

/** Asks the bot for a message again, with the keys for a new session. */
async function retryReceipt(phone: Phone, id: string, group: string | undefined): Promise<BinaryNode> {
  const { creds } = phone.auth
  const { preKey } = await phone.takeBundle()
  return {
    tag: 'receipt',
    attrs: { ...receiptAttrs(phone, id, group), type: 'retry' },
    content: [
      { tag: 'retry', attrs: { count: '1', id, t: now(), v: '1' } },
      { tag: 'registration', attrs: {}, content: encodeBigEndian(creds.registrationId) },
      {
        tag: 'keys',
        attrs: {},
        content: [
          { tag: 'type', attrs: {}, content: KEY_BUNDLE_TYPE },
          { tag: 'identity', attrs: {}, content: creds.signedIdentityKey.public },
          ...(preKey ? [xmppPreKey({ public: preKey.public, private: Buffer.alloc(0) }, preKey.id)] : []),
          xmppSignedPreKey(creds.signedPreKey),
        ],
      },
    ],
  }
}

/** A bot could not decrypt a message and asks its sender again: the sender encrypts it once more. */
export async function routeRetry(directory: Directory, bot: Companion, receipt: BinaryNode): Promise<void> {
  const sender = directory.findDevice(String(receipt.attrs['participant'] ?? receipt.attrs['to']))
  if (!(sender instanceof Phone)) return
  const retry = Number(getAllBinaryNodeChildren(receipt).find(({ tag }) => tag === 'retry')?.attrs['count'] ?? 1)
  const outgoing = await sender.sealAgain(bot, receipt, retry)
  if (outgoing) bot.deliver(messageStanza(sender, bot, outgoing))
}
