// What whatsapp-web.js 1.34.7 asks of the page to take in a text and to send one. Added to the page of tests/wwebjs, whose `modules`
// and `emitter` these are. receive() and `sent` are for the tests.
/* global modules, me */
const wid = id => ({ _serialized: id, user: id.split('@')[0], server: id.split('@')[1], isLid: () => false, isGroup: () => false, isStatus: () => false })
const messages = new Map()
const chats = new Map()
const chatOf = id => {
  if (!chats.has(id)) chats.set(id, { id: wid(id) })
  return chats.get(id)
}

class MsgKey {
  static #count = 0
  static newId = async () => `3EB0${String(++MsgKey.#count).padStart(16, '0')}`
  constructor({ to, id, selfDir }) {
    Object.assign(this, { fromMe: selfDir === 'out', remote: to._serialized, id, _serialized: `${selfDir === 'out'}_${to._serialized}_${id}` })
  }
}

function add(message) {
  const model = { ...message, serialize: () => JSON.parse(JSON.stringify(message)), unsafe: () => message, msgContextInfo: () => ({ quotedStanzaID: message.id.id }) }
  messages.set(message.id._serialized, model)
  modules.WAWebCollections.Msg.fire('add', model)
  return model
}

Object.assign(modules.WAWebCollections.Msg, { get: id => messages.get(id) })
Object.assign(modules.WAWebCollections.Chat, { get: ({ _serialized }) => chatOf(_serialized) })
Object.assign(modules, {
  WAWebMsgKey: MsgKey,
  WAWebWidFactory: { createWid: wid },
  WAWebChatGetters: { getIsNewsletter: () => false, getIsBroadcast: () => false },
  WALinkify: { findLink: () => undefined, findLinks: () => [] },
  WAWebMsgReply: { canReplyMsg: () => true },
  WAWebStreamModel: { Stream: { markAvailable() {}, markUnavailable() {} } },
  WAWebUpdateUnreadChatAction: { async sendSeen() {} },
  WAWebGetEphemeralFieldsMsgActionsUtils: { getEphemeralFields: () => ({}) },
  WAWebSendMsgChatAction: {
    addAndSendMsgToChat(chat, message) {
      window.sent.push({ to: chat.id._serialized, text: message.body, quoted: message.quotedStanzaID })
      return [Promise.resolve(add(message)), Promise.resolve()]
    },
  },
})

window.sent = []
/** A text comes in. With the id of an earlier one, it comes again. */
window.receive = (id, text, from = '15550001111@c.us') => {
  const key = { fromMe: false, remote: from, id, _serialized: `false_${from}_${id}` }
  add({ id: key, type: 'chat', body: text, from: wid(from), to: me, t: Math.floor(Date.now() / 1000), isNewMsg: true, ack: 1 })
}
