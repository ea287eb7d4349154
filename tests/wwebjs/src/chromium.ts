// The Chromium of the system, on loopback only.
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']
const folders = (process.env['PATH'] ?? '').split(delimiter)

/** $CHROMIUM, else one on PATH. */
export const chromium = [process.env['CHROMIUM'], ...NAMES.flatMap(name => folders.map(folder => join(folder, name)))]
  .find(path => path !== undefined && path !== '' && existsSync(path))

if (!chromium) {
  const message = 'no Chromium: set CHROMIUM, or apt-get install chromium'
  // Where everything should be there, nothing is left out in silence.
  if (process.env['CI']) throw new Error(message)
  console.warn(`\n=== SKIP what needs a browser: ${message}\n`)
}

/** For puppeteer.launch() and a Client. */
export const launchOptions = {
  executablePath: chromium,
  headless: true,
  args: [
    '--no-sandbox', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-default-apps',
    '--disable-dev-shm-usage', '--disable-gpu', '--disable-features=OptimizationHints,MediaRouter,Translate',
    // Nothing leaves this machine, whatever it is.
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
  ],
}
