// A second implementation of what `approvals/canonical.py` writes: RFC 8785, in the language that it was written for.
// Each line read is one document in base64; each line answered is its digest and its canonical text in base64.
import { createHash } from "node:crypto";
import { createInterface } from "node:readline";

function canonical(value) {
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  // Array.prototype.sort compares UTF-16 code units, as the RFC asks.
  return `{${Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(",")}}`;
}

for await (const line of createInterface({ input: process.stdin })) {
  const text = canonical(JSON.parse(Buffer.from(line, "base64").toString("utf8")));
  const bytes = Buffer.from(text, "utf8");
  console.log(`${createHash("sha256").update(bytes).digest("hex")} ${bytes.toString("base64")}`);
}
