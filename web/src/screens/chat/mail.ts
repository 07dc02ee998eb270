/** What a mail tool read, message by message. The runtime writes every header as one line, From first, so no text passes for one. */
const READERS = ['gmail_search_threads', 'gmail_get_snippet', 'gmail_get_full'];

export interface ReadMail {
  id: string;
  thread: string;
  from: string;
  date: string;
  subject: string;
  /** The other headers, attachments and what was left out, a line each. */
  more: string[];
  /** Its text, or the beginning of it. */
  text: string;
}

/** The messages in a result, in their order; none if it is no result of a mail tool. */
export function readMails(tool: string, words: string): ReadMail[] {
  if (!READERS.includes(tool)) return [];
  const blocks = tool === 'gmail_get_full' ? [words] : words.split('\n\n');
  return blocks.map(readMail).filter((each) => each !== null);
}

function readMail(block: string): ReadMail | null {
  const [first = '', ...lines] = block.split('\n');
  const [, id, thread] = /^Message ([\w-]{1,64}) in conversation ([\w-]{1,64})$/.exec(first) ?? [];
  if (!id || !thread) return null;
  const mail: ReadMail = { id, thread, from: '', date: '', subject: '', more: [], text: '' };
  let at = 0;
  for (; at < lines.length; at += 1) {
    const line = lines[at] ?? '';
    const [, name, value = ''] = /^(From|Reply-to|To|Cc|Date|Subject|Attachment|Left out): (.*)$/.exec(line) ?? [];
    if (name === 'From' && at === 0) mail.from = value;
    else if (name === 'Date' && !mail.date) mail.date = value;
    else if (name === 'Subject' && !mail.subject) mail.subject = value;
    else if (name && name !== 'From') mail.more.push(line);
    else break;
  }
  mail.text = lines.slice(at).join('\n').replace(/^\n/, '');
  return mail;
}
