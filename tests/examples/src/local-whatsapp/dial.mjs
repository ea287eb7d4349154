// For `node --import`: a bot's program runs as it is, only that its `baileys` dials the server of the test ($WA_URL, certified by
// $WA_AUTHORITY), and that the phone sees the QR codes that it shows. Of all modules only those in $WA_PROGRAM get it so.
import { register } from 'node:module'
import { pathToFileURL } from 'node:url'

const program = JSON.stringify(`${pathToFileURL(process.env.WA_PROGRAM)}/`)

const dialling = `
const source = real => \`
  import { makeWASocket, WA_CERT_DETAILS } from \${real}
  export * from \${real}
  WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(process.env.WA_AUTHORITY, 'hex')
  const dial = config => {
    const sock = makeWASocket({ ...config, waWebSocketUrl: process.env.WA_URL, retryRequestDelayMs: 1 })
    sock.ev.on('connection.update', ({ qr }) => qr && process.stderr.write('the phone sees ' + qr + '\\\\n'))
    return sock
  }
  export { dial as makeWASocket, dial as default }\`

export async function resolve(specifier, context, next) {
  const found = await next(specifier, context)
  const from = context.parentURL ?? ''
  if (specifier !== 'baileys' || !from.startsWith(${program}) || from.includes('/node_modules/')) return found
  return { url: 'data:text/javascript,' + encodeURIComponent(source(JSON.stringify(found.url))), format: 'module', shortCircuit: true }
}`

register(`data:text/javascript,${encodeURIComponent(dialling)}`)
