// The values of context.d.ts, for blocks that are run.
import { writeFileSync } from 'node:fs'
import { connect } from 'pannier'
import { usePannierAuthState } from 'pannier/baileys'

const message = { id: 'wamid.1', from: '4917012345678', text: '120' }
writeFileSync('profile.zip', 'what a profile is made of')

Object.assign(globalThis, {
  pannier: await connect(), usePannierAuthState,
  message, messages: [message, { ...message, id: 'wamid.2' }],
  key: 'message:wamid.3', id: 'wamid.out.1', sender: '106540352242922', recipient: message.from, sendId: 'reply:wamid.1', waId: message.from,
  url: 'http://127.0.0.1:9/',
  send: async () => {}, reply: async () => {}, work: async () => {}, retryIn: ms => ms, handleAgain: () => {},
})
