// Runs a personal data server of the AT Protocol, the reference one, with a directory
// of identities beside it, both on 127.0.0.1 and without a word to anybody else:
//
//   node start.mjs DIRECTORY
//
// Its data go to the directory. One line says where it listens. It ends with its
// standard input.
import { randomBytes } from 'node:crypto'
import http from 'node:http'
import path from 'node:path'
import process from 'node:process'

process.env.LOG_ENABLED = 'false'
const { default: identities } = await import('@did-plc/server')
const { PDS, envToCfg, envToSecrets } = await import('@atproto/pds')

// Left to themselves, both listen on every address of the machine.
const started = async (server) => {
  server.app.listen = () => http.createServer(server.app).listen(0, '127.0.0.1')
  return `http://127.0.0.1:${(await server.start()).address().port}`
}
const secret = () => randomBytes(32).toString('hex')
const directory = process.argv[2]

const env = {
  devMode: true,
  hostname: 'localhost',
  dataDirectory: directory,
  blobstoreDiskLocation: path.join(directory, 'blobs'),
  blobstoreDiskTmpLocation: path.join(directory, 'blobs-tmp'),
  didPlcUrl: await started(identities.PlcServer.create({ db: identities.Database.mock() })),
  serviceHandleDomains: ['.test'],
  inviteRequired: false,
  rateLimitsEnabled: false,
  jwtSecret: secret(),
  adminPassword: secret(),
  plcRotationKeyK256PrivateKeyHex: secret(),
}
console.log(await started(await PDS.create(envToCfg(env), envToSecrets(env))))

process.stdin.resume()
process.stdin.on('end', () => process.exit(0))
