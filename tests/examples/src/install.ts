// Before the first test: `npm install` of each example, as its README says, from its lock file.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EXAMPLES } from './example.js'

export default function install(): void {
  for (const name of readdirSync(EXAMPLES)) {
    const folder = join(EXAMPLES, name)
    if (!existsSync(join(folder, 'package-lock.json'))) continue
    const lock = createHash('sha256').update(readFileSync(join(folder, 'package-lock.json'))).digest('hex')
    const stamp = join(folder, 'node_modules/.pannier-lock')
    if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) continue
    const env = { ...process.env, PUPPETEER_SKIP_DOWNLOAD: '1' }
    execFileSync('npm', ['ci', '--no-fund', '--no-audit', '--prefer-offline'], { cwd: folder, env, stdio: 'inherit', timeout: 300_000 })
    writeFileSync(stamp, lock)
  }
}
