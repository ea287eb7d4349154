import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

test('the commands of the README lead from an empty home to a bot that answers', { timeout: 400_000 }, () => {
  const said = execFileSync(fileURLToPath(new URL('../../../scripts/first-steps', import.meta.url)), { encoding: 'utf8', timeout: 390_000, stdio: ['ignore', 'pipe', 'inherit'] })
  console.log(said)
  expect(said).toMatch(/files, \d+ kB packed/)
  expect(said).toMatch(/npm install baileys@7\.0\.0-rc14 \/path\/to\/pannier\/clients\/ts\n/)
  expect(said).toMatch(/from an empty home to a paired bot: [\d.]+ s\n/)
  expect(said).toMatch(/ s {2}ping\n$/)
})
