/** Files: the workspace. */
export const files = {
  'files.title': 'Files',
  'files.none': 'Choose a file',
  'files.none.more': 'This is the workspace, where the agent reads and writes. Opening a file is on record like everything else.',
  'files.empty': 'Nothing in here.',
  'files.cut': 'The first {n} are listed.',
  'files.labelled': 'Somebody else\'s words may be in it',
  'files.labelled.in': 'Somebody else\'s words may be in here',
  'files.link': 'Link, not followed',
  'files.odd': 'No ordinary file',
  'files.history': 'What was done with it',
  'files.undo': 'Undo last change',
  'files.undo.more': 'Shows first what the file would go back to.',
  'files.vouch': 'Have you read it, and does it count as yours? Then the agent may follow what it says.',
  'files.vouch.do': 'Vouch for it',
} as const;
