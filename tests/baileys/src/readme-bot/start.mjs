// For `node --import`: the bot of the README runs as it is, only that its `baileys` dials the server of the test.
import { register } from 'node:module'

const hook = `export const resolve = (specifier, context, next) => specifier === 'baileys' && context.parentURL?.endsWith('/bot.mjs')
  ? { url: ${JSON.stringify(new URL('baileys.mjs', import.meta.url).href)}, shortCircuit: true }
  : next(specifier, context)`

register(`data:text/javascript,${encodeURIComponent(hook)}`)
