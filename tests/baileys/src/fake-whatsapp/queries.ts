// Answers to what a bot asks (`iq` stanzas): just enough for an unmodified Baileys to log in, send and receive.
import {
  type BinaryNode,
  encodeBigEndian,
  getAllBinaryNodeChildren,
  getBinaryNodeChild,
  getBinaryNodeChildBuffer,
  getBinaryNodeChildren,
  jidDecode,
  KEY_BUNDLE_TYPE,
  S_WHATSAPP_NET,
  xmppPreKey,
  xmppSignedPreKey,
} from 'baileys'
import type { Companion } from './companion.js'
import type { Account, Directory, Group, KeyBundle, PublicPreKey } from './directory.js'

export interface Asked {
  directory: Directory
  bot: Companion
  counters: { preKeysUploaded: number; keyBundlesServed: number }
}

type Answer = (asked: Asked, iq: BinaryNode) => BinaryNode[] | Promise<BinaryNode[]>

const node = (tag: string, attrs: BinaryNode['attrs'] = {}, content?: BinaryNode['content']): BinaryNode =>
  content === undefined ? { tag, attrs } : { tag, attrs, content }

/** The reply to an `iq`; unknown questions get an empty result. */
export async function answer(asked: Asked, iq: BinaryNode): Promise<BinaryNode> {
  const content = await ANSWERS[String(iq.attrs['xmlns'])]?.(asked, iq)
  return node('iq', { from: iq.attrs['to'] ?? S_WHATSAPP_NET, type: 'result', id: String(iq.attrs['id']) }, content ?? [])
}

const ANSWERS: Record<string, Answer> = {
  'w:p': () => [],
  abt: () => [node('props', { protocol: '1', hash: '1pannier' }, [node('prop', { config_code: '10518', config_value: 'true' })])],
  blocklist: () => [node('list')],
  encrypt: (asked, iq) => {
    const [question] = getAllBinaryNodeChildren(iq)
    if (iq.attrs['type'] === 'set') return question?.tag === 'rotate' ? rotateSignedPreKey(asked, question) : uploadPreKeys(asked, iq)
    switch (question?.tag) {
      case 'count': return [node('count', { value: String(asked.bot.preKeys.length) })]
      case 'digest': return [node('digest', {}, [node('registration', {}, encodeBigEndian(asked.bot.keys.registrationId))])]
      case 'key': return keyBundles(asked, question)
      default: return []
    }
  },
  privacy: (_, iq) => getBinaryNodeChild(iq, 'tokens') ? [] : [node('privacy', {}, [node('category', { name: 'readreceipts', value: 'all' })])],
  usync: ({ directory }, iq) => [devices(directory, getBinaryNodeChild(iq, 'usync'))],
  'w:g2': ({ directory }, iq) => {
    const group = directory.group(String(iq.attrs['to']))
    return group ? [describeGroup(group)] : [node('groups')]
  },
  'w:sync:app:state': (_, iq) => [node('sync', {}, getBinaryNodeChildren(getBinaryNodeChild(iq, 'sync'), 'collection')
    .map(({ attrs }) => node('collection', { name: String(attrs['name']), version: String(attrs['version']) })))],
}

function publicPreKey(key: BinaryNode): PublicPreKey {
  const id = getBinaryNodeChildBuffer(key, 'id')
  const value = getBinaryNodeChildBuffer(key, 'value')
  if (!id || !value) throw new Error('a key was uploaded without id or value')
  return { id: Buffer.from(id).readUIntBE(0, 3), public: value }
}

function signedPreKey(skey: BinaryNode) {
  const signature = getBinaryNodeChildBuffer(skey, 'signature')
  if (!signature) throw new Error('a signed pre-key was uploaded without its signature')
  return { ...publicPreKey(skey), signature }
}

function uploadPreKeys({ bot, counters }: Asked, iq: BinaryNode): BinaryNode[] {
  const uploaded = getBinaryNodeChildren(getBinaryNodeChild(iq, 'list'), 'key').map(publicPreKey)
  bot.preKeys.push(...uploaded)
  counters.preKeysUploaded += uploaded.length
  const skey = getBinaryNodeChild(iq, 'skey')
  if (skey) bot.signedPreKey = signedPreKey(skey)
  return []
}

function rotateSignedPreKey({ bot }: Asked, rotate: BinaryNode): BinaryNode[] {
  const skey = getBinaryNodeChild(rotate, 'skey')
  if (skey) bot.signedPreKey = signedPreKey(skey)
  return []
}

async function keyBundles({ directory, counters }: Asked, question: BinaryNode): Promise<BinaryNode[]> {
  const users: BinaryNode[] = []
  for (const { attrs } of getBinaryNodeChildren(question, 'user')) {
    const jid = String(attrs['jid'])
    const device = directory.findDevice(jid)
    if (!device) continue
    users.push(bundleNode(jid, await device.takeBundle()))
    counters.keyBundlesServed++
  }
  return [node('list', {}, users)]
}

function bundleNode(jid: string, bundle: KeyBundle): BinaryNode {
  const { id, signature } = bundle.signedPreKey
  const pair = (key: PublicPreKey) => ({ public: key.public, private: Buffer.alloc(0) })
  return node('user', { jid }, [
    node('registration', {}, encodeBigEndian(bundle.registrationId)),
    node('type', {}, KEY_BUNDLE_TYPE),
    node('identity', {}, bundle.identity),
    ...(bundle.preKey ? [xmppPreKey(pair(bundle.preKey), bundle.preKey.id)] : []),
    xmppSignedPreKey({ keyId: id, keyPair: pair(bundle.signedPreKey), signature }),
  ])
}

function devices(directory: Directory, usync: BinaryNode | undefined): BinaryNode {
  const asks = (protocol: string) => getBinaryNodeChild(getBinaryNodeChild(usync, 'query'), protocol) !== undefined
  const users = getBinaryNodeChildren(getBinaryNodeChild(usync, 'list'), 'user').flatMap(user => {
    const jid = user.attrs['jid'] ?? phoneJid(user)
    const account = directory.findAccount(jid)
    if (!account) return asks('contact') ? [node('user', { jid }, [node('contact', { type: 'out' })])] : []
    return [node('user', { jid }, [
      ...(asks('devices') ? [node('devices', {}, [node('device-list', {}, deviceNodes(account))])] : []),
      ...(asks('contact') ? [node('contact', { type: 'in' })] : []),
      ...(asks('lid') && jidDecode(jid)?.server !== 'lid' ? [node('lid', { val: account.lidJid() })] : []),
    ])]
  })
  return node('usync', {}, [node('list', {}, users)])
}

const phoneJid = (user: BinaryNode): string =>
  `${String(getBinaryNodeChild(user, 'contact')?.content ?? '').replace('+', '')}@s.whatsapp.net`

const deviceNodes = (account: Account): BinaryNode[] =>
  [...account.devices.keys()].map(id => node('device', { id: String(id), 'key-index': String(id) }))

function describeGroup(group: Group): BinaryNode {
  const byLid = group.addressingMode === 'lid'
  return node('group', {
    id: String(jidDecode(group.jid)?.user),
    subject: group.subject,
    creation: '1700000000',
    s_t: '1700000000',
    size: String(group.members.length),
    addressing_mode: group.addressingMode,
  }, group.members.map(member => node('participant', byLid
    ? { jid: member.lidJid(), phone_number: member.pn() }
    : { jid: member.pn(), lid: member.lidJid() })))
}

