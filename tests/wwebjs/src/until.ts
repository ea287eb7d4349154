/** Waits for something to be true. Unlike expect.poll it works in tests that run side by side. */
export async function until(what: string, holds: () => boolean, ms = 15_000): Promise<void> {
  const deadline = performance.now() + ms
  while (!holds()) {
    if (performance.now() > deadline) throw new Error(`not within ${ms} ms: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}
