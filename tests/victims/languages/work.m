% Matrices, structures and strings; a line for each round.
rand ("twister", 1);
total = 0;
times = max ([1, str2double(getenv ("VICTIM_TIMES"))]);
for round = 0:(50 * times - 1)
  m = rand (120);
  s = (m' * m + eye (120)) \ m(:, 1);
  words = containers.Map ("KeyType", "double", "ValueType", "double");
  for i = 1:30
    key = mod (i * 7919, 31);
    if (isKey (words, key))
      words(key) += i;
    else
      words(key) = i;
    end
  end
  total += sum (s) + sum (cell2mat (values (words)));
  pause (0.01);
  printf ("round %d sum %.12e\n", round, total);
  fflush (stdout);
end
file = fopen ("total", "w");
fprintf (file, "%.15e\n", total);
fclose (file);
disp ("end");
