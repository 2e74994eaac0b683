// Writes the tables that the connectors' text rules are made of, in Go, from the packages that
// the platforms publish:
//
//     node tables.mjs twittertext    the library of that name, for internal/twittertext
//     node tables.mjs bluesky        the top-level domains of @atproto/api, for internal/connector/bluesky
//
// A pattern of JavaScript without the flag u reads units of UTF-16, and with the flag i it folds
// them by rules that Go's (?i) does not have. So each class and each letter becomes the list of
// the units that JavaScript matches with it: what Go gets has neither flags nor letters to fold.

import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'

const require = createRequire(import.meta.url)
const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url))).version

// parse reads the source of a pattern without the flag u, and calls out for its parts.
class Translator {
  constructor(source, fold) {
    this.s = source
    this.at = 0
    this.fold = fold
  }

  all() {
    const out = this.alternatives()
    if (this.at !== this.s.length) throw new Error(`left over: ${this.s.slice(this.at)}`)
    return out
  }

  alternatives() {
    const out = [this.sequence()]
    while (this.s[this.at] === '|') {
      this.at++
      out.push(this.sequence())
    }
    return out.join('|')
  }

  sequence() {
    let out = ''
    while (this.at < this.s.length && this.s[this.at] !== '|' && this.s[this.at] !== ')') {
      out += this.atom() + this.quantifier()
    }
    return out
  }

  quantifier() {
    const m = /^(?:[*+?]|\{\d+(?:,\d*)?\})/.exec(this.s.slice(this.at))
    if (!m) return ''
    this.at += m[0].length
    return m[0]
  }

  atom() {
    const c = this.s[this.at]
    if (c === '(') return this.group()
    if (c === '[') return this.class()
    if (c === '^' || c === '$') {
      this.at++
      return c === '^' ? '\\A' : '\\z'
    }
    if (c === '.') throw new Error('a dot')
    return this.units(this.escaped())
  }

  // A group captures nothing: Go's side places the captures.
  group() {
    let m = /^\((?:\?:)?(?!\?)/.exec(this.s.slice(this.at))
    if (!m) throw new Error(`a group of no known kind: ${this.s.slice(this.at, this.at + 20)}`)
    this.at += m[0].length
    const inner = this.alternatives()
    this.at++
    return `(?:${inner})`
  }

  // class takes a class as it is written, and asks JavaScript which units it has.
  class() {
    const from = this.at++
    while (this.s[this.at] !== ']') this.at += this.s[this.at] === '\\' ? 2 : 1
    this.at++
    return this.units(this.s.slice(from, this.at))
  }

  escaped() {
    const m = /^(?:\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\.|.)/s.exec(this.s.slice(this.at))
    this.at += m[0].length
    return m[0]
  }

  units(source) {
    return units(source, this.fold)
  }
}

// rune is how a unit of UTF-16 stands in Go's texts: a half of a pair as a rune of its own (see units.go).
const rune = (unit) => (unit >= 0xd800 && unit <= 0xdfff ? 0xf0000 + unit - 0xd800 : unit)

const known = new Map()

// units returns the class of the units that a class or one letter matches.
function units(source, fold) {
  const key = `${fold} ${source}`
  if (known.has(key)) return known.get(key)
  const one = new RegExp(`^(?:${source})$`, fold ? 'i' : '')
  const ranges = []
  for (let unit = 0; unit < 0x10000; unit++) {
    if (!one.test(String.fromCharCode(unit))) continue
    const r = rune(unit)
    const last = ranges[ranges.length - 1]
    if (last && last[1] === r - 1) last[1] = r
    else ranges.push([r, r])
  }
  let out = ranges.length === 1 && ranges[0][0] === ranges[0][1]
    ? written(ranges[0][0])
    : `[${ranges.map(([a, b]) => (a === b ? written(a) : `${written(a)}-${written(b)}`)).join('')}]`
  if (out.length > 40) out = name(out)
  known.set(key, out)
  return out
}

// names are the long classes, which are constants of their own: a text has a mark with the number.
const names = []

function name(long) {
  let n = names.indexOf(long)
  if (n < 0) n = names.push(long) - 1
  return `\0${n}\0`
}

function written(r) {
  const c = String.fromCodePoint(r)
  if (/[A-Za-z0-9]/.test(c)) return c
  if (r < 0x80 && /[ !"#%&',:;<=>@_`~\/]/.test(c)) return c === '`' ? '\\x60' : c
  return `\\x{${r.toString(16).toUpperCase()}}`
}

const translate = (re, fold) => new Translator(re.source, fold).all()

// topLevel is a list of top-level domains: what stands between "(?:(?:" and the lookahead.
function topLevel(re) {
  const m = /^\(\?:\(\?:(.*)\)\(\?=\[\^0-9a-zA-Z@\+-\]\|\$\)\)$/.exec(re.source)
  if (!m) throw new Error('the list of top-level domains has another form')
  return m[1].split('|')
}

function twittertext() {
  const part = (name) => {
    const re = require(`twitter-text/dist/regexp/${name}.js`)
    return re instanceof RegExp ? re : new RegExp(re)
  }
  // How the library puts the parts together, so that a later version is noticed.
  const whole = part('extractUrl').source
  const domain = part('validDomain').source
  const sub = part('validSubdomain').source
  const name = part('validDomainName').source
  const gtld = part('validGTLD').source
  const cctld = part('validCCTLD').source
  const puny = part('validPunycode').source
  const before = part('validUrlPrecedingChars').source
  const path = part('validUrlPath').source
  const query = part('validUrlQueryChars').source
  const end = part('validUrlQueryEndingChars').source
  const port = part('validPortNumber').source
  const must = (a, b, what) => {
    if (a !== b) throw new Error(`${what} is put together in another way`)
  }
  must(domain, `(?:${sub}*${name}(?:${gtld}|${cctld}|${puny}))`, 'validDomain')
  must(whole, `((${before})((https?:\\/\\/)?(${domain})(?::(${port}))?(\\/${path}*)?(\\?${query}*${end})?))`, 'extractUrl')
  const ascii = part('validAsciiDomain').source
  const label = /^\(\?:\(\?:(\[[^\]]*\]\+)\)\\\.\)\+/.exec(ascii)[1]
  must(ascii, `(?:(?:${label})\\.)+(?:${gtld}|${cctld}|${puny})`, 'validAsciiDomain')
  must(part('validTcoUrl').source, `^https?:\\/\\/t\\.co\\/([a-z0-9]+)(?:\\?${query}*${end})?`, 'validTcoUrl')
  must(part('invalidUrlWithoutProtocolPrecedingChars').source, '[-_.\\/]$', 'invalidUrlWithoutProtocolPrecedingChars')

  const config = require('twitter-text/dist/configs.js').defaults
  must(JSON.stringify([config.scale, config.defaultWeight, config.emojiParsingEnabled, config.transformedURLLength, config.maxWeightedTweetLength]),
    '[100,200,true,23,280]', 'the configuration')
  const emoji = emojiParts(require('twemoji-parser/dist/lib/regex.js').default.source)
  const tops = [...new Set([...topLevel(part('validGTLD')), ...topLevel(part('validCCTLD'))])]

  // In order, so that Go factors what they begin with alike. Of two one of which begins as the other,
  // the library's order stays: it says which is tried first.
  const nth = new Map(tops.map((t, i) => [t, i]))
  const sorted = [...tops].sort((a, b) => (a.startsWith(b) || b.startsWith(a) ? nth.get(a) - nth.get(b) : a < b ? -1 : 1))
  const lines = [
    '// Code generated by internal/proof/oracles/tables.mjs. DO NOT EDIT.',
    '',
    '// Patterns, top-level domains and weights: twitter-text ' + version('twitter-text') + ' (npm), copyright 2018 Twitter, Inc.,',
    '// Apache License 2.0. Emoji: twemoji-parser ' + version('twemoji-parser') + ' (npm), copyright Twitter, Inc., MIT License.',
    '// They are translated, see tables.mjs; runes of plane 15 are halves of UTF-16 pairs. Case pairs: Unicode ' + process.versions.unicode + '.',
    '',
    'package twittertext',
    '',
    'const (',
    ...constants({
      partBefore: translate(new RegExp(before.replace('|^)', ')')), true),
      partScheme: new Translator('https?:\\/\\/', true).all(),
      partSub: translate(part('validSubdomain'), true),
      partName: translate(part('validDomainName'), true),
      partPunycode: translate(part('validPunycode'), true),
      partTopEnd: units('[^0-9a-zA-Z@+-]', true),
      partPort: new Translator(':' + port, true).all(),
      partPath: new Translator('\\/' + path + '*', true).all(),
      partQuery: new Translator('\\?' + query + '*' + end, true).all(),
      partLabel: new Translator(label, true).all(),
      partSlug: new Translator('[a-z0-9]+', true).all(),
      partShort: new Translator('https?:\\/\\/t\\.co\\/', true).all(),
      ...Object.fromEntries(Object.entries(emoji).map(([k, v]) => [k, new Translator(v, false).all()])),
    }),
    ')',
    '',
    '// topLevel are the top-level domains, in lower case.',
    `const topLevel = ${quoted(sorted.join(' '))}`,
    '',
    '// light are the ranges of units that count one; all others count two.',
    'var light = [][2]rune{' + config.ranges.map((r) => {
      if (r.weight !== 100) throw new Error('another weight')
      return `{${r.start}, ${r.end}}`
    }).join(', ') + '}',
    '',
    '// barred are the units that X takes in no text.',
    `const barred = "${part('invalidChars').source.slice(1, -1).replaceAll('\\uFEFF', '\\ufeff').replaceAll('\\uFFFE', '\\ufffe').replaceAll('\\uFFFF', '\\uffff')}"`,
  ]
  return lines.join('\n') + '\n'
}

// emojiParts takes the pattern of emoji apart at what Go has no word for: "not before a text selector".
// Two sets of emoji end with it, the second of which may have a skin tone. Go's side puts them together.
function emojiParts(source) {
  const open = '(?:\\ufe0f|(?!\\ufe0e))'
  const parts = source.split(open)
  if (parts.length !== 3) throw new Error('the pattern of emoji has another form')
  let depth = 0
  let from = parts[0].length
  do {
    from--
    if (parts[0][from] === ')') depth++
    if (parts[0][from] === '(') depth--
  } while (depth > 0)
  const second = /^\|\(\?:(\(\?:[^()]*\))$/.exec(parts[1])
  const rest = /^\|(\(\?:[^()]*\))\)(\(\?:\\ud83c\[\\udffb-\\udfff\]\))\?\|(.*)$/s.exec(parts[2])
  if (!second || !rest || parts[0][from - 1] !== '|') throw new Error('the pattern of emoji has another form')
  return {
    partEmojiFirst: parts[0].slice(0, from - 1),
    partEmojiOpen: parts[0].slice(from),
    partEmojiOpenToned: second[1],
    partEmojiToned: rest[1],
    partEmojiTone: rest[2],
    partEmojiRest: rest[3],
  }
}

// constants writes texts and the classes in them.
function constants(of) {
  const parts = Object.entries(of).map(([k, v]) => `\t${k} = ${quoted(v, '\t\t')}`)
  return [...names.map((long, n) => `\tclass${n} = ${quoted(long, '\t\t')}`), ...parts]
}

// quoted breaks a long text into lines.
function quoted(text, indent = '\t') {
  const width = 110
  return text.split('\0').map((part, i) => {
    if (i % 2 === 1) return `class${part}`
    const pieces = []
    for (let at = 0; at < part.length; at += width) pieces.push('`' + part.slice(at, at + width) + '`')
    return pieces.join(` +\n${indent}`)
  }).filter((part) => part).join(' + ')
}

function bluesky() {
  const tlds = createRequire(require.resolve('@atproto/api'))('tlds')
  return [
    '// Code generated by internal/proof/oracles/tables.mjs. DO NOT EDIT.',
    '',
    '// tlds ' + version('tlds') + ' (npm), which @atproto/api ' + version('@atproto/api') + ' uses; copyright Stephen Mathieson and Richie Bendall, MIT License.',
    '',
    'package bluesky',
    '',
    '// topLevel are the top-level domains of hosts that become a link without a scheme, or a mention; in lower case.',
    `const topLevel = ${quoted([...tlds].sort().join(' '))}`,
  ].join('\n') + '\n'
}

const wanted = { twittertext, bluesky }[process.argv[2]]
if (!wanted) throw new Error('node tables.mjs twittertext | bluesky')
process.stdout.write(wanted())
