import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Each file has a sidecar and a Valkey of its own: two at a time is what a small machine carries.
    maxWorkers: 2,
    pool: 'forks',
  },
})
