// Regular expressions of the page: lists them (Node's own parser), or measures how their time grows.
"use strict"
const fs = require("fs")
const acorn = require("internal/deps/acorn/acorn/dist/acorn")

const given = JSON.parse(fs.readFileSync(0, "utf8"))

function* nodes(node) {
  if (Array.isArray(node)) for (const each of node) yield* nodes(each)
  else if (node && typeof node.type === "string") {
    yield node
    for (const key of Object.keys(node)) if (key !== "regex") yield* nodes(node[key])
  }
}

function list(files) {
  const literals = [], made = []
  for (const file of files) {
    const tree = acorn.parse(fs.readFileSync(file, "utf8"), { ecmaVersion: "latest", sourceType: "module" })
    for (const node of nodes(tree)) {
      if (node.regex) literals.push({ file, pattern: node.regex.pattern, flags: node.regex.flags })
      else if (/^(New|Call)Expression$/.test(node.type) && node.callee.name === "RegExp") made.push(file)
    }
  }
  return { literals, made }
}

// The clock of the CPU ticks too seldom here; the least of many runs is one without interruption.
function leastTime(regex, text, runs) {
  let least = Infinity
  for (let run = 0; run < runs && (least < 50 || run < 2); run++) {
    const began = performance.now()
    text.replace(regex, "")
    least = Math.min(least, performance.now() - began)
  }
  return least
}

function isExcess(regex, make, most) {
  for (const size of [8, 16, 20, 24, 28, 32, 64, 256, 1024]) if (leastTime(regex, make(size), 3) > 100) return true
  const noise = 0.05
  if (leastTime(regex, make(32768), 2) <= 24 * (leastTime(regex, make(2048), 3) + noise)) return false
  for (let size = 4096; size <= 32768; size *= 2) {
    let tries = 0
    const ratio = () => leastTime(regex, make(2 * size), 9) / (leastTime(regex, make(size), 9) + noise)
    while (ratio() > most) if (++tries === 6) return true
  }
  return false
}

function measure({ cases, most }) {
  return cases.filter(({ pattern, flags, attacks }) => {
    const regex = new RegExp(pattern, flags)
    return attacks.some(({ lead, pump, stop }) => {
      const make = size => lead + pump.repeat(Math.max(1, Math.floor(size / pump.length))) + stop
      return isExcess(regex, make, most)
    })
  }).map(({ file, pattern }) => ({ file, pattern }))
}

console.log(JSON.stringify(process.argv[2] === "list" ? list(given) : measure(given)))
