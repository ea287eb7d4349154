// For `node --import`: a bot's program runs as it is, only that its `whatsapp-web.js` gets the page in $WA_PAGES instead of
// web.whatsapp.com, nothing leaves the machine, and the test is told where the browser can be reached.
import { register } from 'node:module'
import { pathToFileURL } from 'node:url'

const program = JSON.stringify(`${pathToFileURL(process.env.WA_PROGRAM)}/`)

const local = `
const source = real => \`
  import whatsapp from \${real}
  const args = ['--no-sandbox', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-default-apps',
    '--disable-dev-shm-usage', '--disable-gpu', '--disable-features=OptimizationHints,MediaRouter,Translate', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1']
  class Client extends whatsapp.Client {
    constructor(options) {
      const webVersionCache = { type: 'local', path: process.env.WA_PAGES, strict: true }
      super({ ...options, webVersion: '2.3000.0', webVersionCache, puppeteer: { ...options.puppeteer, args }, authTimeoutMs: 20_000 })
    }
    async initialize() {
      await super.initialize()
      process.stderr.write('the browser is at ' + this.pupBrowser.wsEndpoint() + '\\\\n')
    }
  }
  export default { ...whatsapp, Client }\`

export async function resolve(specifier, context, next) {
  const found = await next(specifier, context)
  const from = context.parentURL ?? ''
  if (specifier !== 'whatsapp-web.js' || !from.startsWith(${program}) || from.includes('/node_modules/')) return found
  return { url: 'data:text/javascript,' + encodeURIComponent(source(JSON.stringify(found.url))), format: 'module', shortCircuit: true }
}`

register(`data:text/javascript,${encodeURIComponent(local)}`)
